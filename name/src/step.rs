//! Steps that lead on from a fault or a refusal, as data: a library knows what helps, and a face how that is asked for.
//!
//! In a sentence, a step is a noun. What it is called is up to the face, which says so once, at its start ([`name_by`]); without one it is called by plain words.

use std::{
    ffi::OsString,
    fmt,
    path::PathBuf,
    sync::{PoisonError, RwLock},
};

macro_rules! steps {
    ($($name:ident $(($with:ty))? = $plain:literal,)+) => {
        /// A step, or an option of the call at hand that takes it.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Step {
            $(#[doc = $plain] $name $(($with))?,)+
        }

        impl Step {
            /// Each of them, with nothing said of what it is done to.
            pub fn each() -> Vec<Step> {
                vec![$(Step::$name $((<$with>::default()))?,)+]
            }

            fn plain(&self) -> &'static str {
                match self {
                    $(Step::$name { .. } => $plain,)+
                }
            }
        }
    };
}

steps! {
    Check = "a check of the store",
    CheckData = "a check of all data",
    Repair = "a repair of the store",
    PlanRepair = "the plan of a repair",
    RepairFrom(Option<PathBuf>) = "a repair from a copy",
    RepairOf(PathBuf) = "a repair of that store",
    Salvage = "a salvage of what the packs hold",
    SalvageOf(PathBuf) = "a salvage of that store",
    RebuildIndex = "a rebuild of the index",
    Init = "a start with an empty store",
    InitAnew = "a start with an empty store in its place",
    AcceptOlder = "a word that the older copy counts",
    CopyFirst = "a first copy",
    Copy = "a copy",
    CaptureFolder(OsString) = "a checkpoint of that folder",
    CaptureHere(OsString) = "a checkpoint of this folder for that session",
    CaptureFor = "a checkpoint of a folder for a session",
    CaptureFile((Option<PathBuf>, Vec<u8>)) = "a checkpoint of that file",
    CaptureList = "a checkpoint of a list",
    Checkpoints = "the list of checkpoints",
    Paths(String) = "the list of its paths",
    Sessions = "the list of sessions",
    Events = "the log",
    Tags = "the list of tags",
    Options = "the list of options",
    Projects = "the list of projects",
    Memories = "the list of memories",
    Recall = "a search in the memory",
    ConfirmProject = "a confirmation of the project",
    Deliveries = "the list of deliveries",
    Mounts = "the list of mounts",
    Unmount = "an unmount",
    RestorePrivileged = "a restore with privileges",
    ImportBehind(String) = "an import of what unpacks it",
    Verify(String) = "a verification of the checkpoint",
    MoveSession(String) = "a move of the session",
    MoveSessionHere((String, PathBuf)) = "a move of the session to this folder",
    Resume(String) = "a resume of the session",
    ResumeFrom(String) = "a resume from the checkpoint",
    InstallProxies = "an installation of proxies",
    LockTimeout = "the longest wait for a lock",
    StoreOption = "the option for the store",
    Exclude = "an exclusion",
    DryRun = "a look ahead",
    To = "the target",
    InPlace = "a change in place",
    Delete = "the removal of what is not in the checkpoint",
    FilesFrom = "the list of paths",
    Nulls = "the option for NUL bytes",
    SessionOption = "the option for the session",
    Workspace(PathBuf) = "the option for the folder",
    From = "the option for it",
    Transcript = "the option for the transcript",
    TmuxSocket = "the option for tmux's socket",
    Socket = "the option for the socket",
    Listen = "the option for the address",
    TlsCertificate = "the option for the certificate",
    TlsKey = "the option for the key",
    AllowOther = "access for others",
    RebuildInCheck = "a rebuild of the index",
}

/// The words of a face for a step.
pub type Namer = fn(&Step) -> String;

static NAMER: RwLock<Option<Namer>> = RwLock::new(None);

/// Has steps called by the words of a face from here on.
pub fn name_by(namer: Namer) {
    *NAMER.write().unwrap_or_else(PoisonError::into_inner) = Some(namer);
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let namer = *NAMER.read().unwrap_or_else(PoisonError::into_inner);
        match namer {
            Some(namer) => f.write_str(&namer(self)),
            None => f.write_str(self.plain()),
        }
    }
}
