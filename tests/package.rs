//! The packages of `./dev package`, installed into a bare Debian 12, where an ordinary user runs README's example.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use parhelia_tests::{
    Scratch, binary,
    pages::{self, Kind, plain, repository},
};

/// A file in the build folder, made by `./dev package`.
fn built(name: &str) -> PathBuf {
    let path = binary().ancestors().nth(2).unwrap().join(name);
    assert!(path.exists(), "{} is missing: make it with `./dev package`", path.display());
    path
}

/// The machine's own mirror of Debian.
fn mirror() -> String {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    files.extend(fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().map(|entry| entry.unwrap().path()));
    let texts: Vec<String> = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    let used = texts.iter().flat_map(|text| text.lines()).filter(|line| !line.starts_with('#'));
    let mut words = used.flat_map(str::split_whitespace);
    let is_debian = |word: &&str| word.starts_with("http") && word.trim_end_matches('/').ends_with("/debian");
    words.find(is_debian).unwrap_or("http://deb.debian.org/debian").to_owned()
}

/// Succeeds, or panics with all that was printed.
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{:?} is needed by this test: {e}", command.get_program()));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// A bare Debian, with a user `me`.
struct Root<'a>(&'a Path);

impl<'a> Root<'a> {
    fn new(folder: &'a Path) -> Self {
        let mut make = Command::new("debootstrap");
        succeed(make.args(["--variant=minbase", "bookworm"]).arg(folder).arg(mirror()));
        let root = Root(folder);
        root.sh("useradd --create-home me");
        root
    }

    /// Runs a script as root, in a mount namespace of its own: nothing is left mounted.
    fn sh(&self, script: &str) -> String {
        let outside = "mount -t proc proc \"$0/proc\" && mount --rbind /dev \"$0/dev\" && exec chroot \"$0\" /bin/sh -ec \"$1\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", outside]).arg(self.0).arg(script);
        let clean = [("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"), ("HOME", "/root")];
        command.env_remove("PARHELIA_STORE").env_remove("TMPDIR").envs(clean);
        command.envs([("LC_ALL", "C.UTF-8"), ("TERM", "dumb"), ("NO_COLOR", "1"), ("DEBIAN_FRONTEND", "noninteractive")]);
        succeed(&mut command)
    }

    /// Runs a script as the user.
    fn user(&self, script: &str) -> String {
        fs::write(self.0.join("script"), script).unwrap();
        self.sh("cd ~me && exec runuser -u me -- env HOME=/home/me sh -e /script")
    }

    /// Runs README's example on a terminal, in the default store.
    fn run_the_example(&self) {
        let demo = self.0.join("tmp/demo");
        fs::create_dir_all(&demo).unwrap();
        let blocks = pages::blocks(&pages::readme());
        let of = |kind| blocks.iter().filter(move |block| block.kind == kind).map(|block| block.text.as_str());
        for setup in of(Kind::Setup) {
            succeed(Command::new("sh").args(["-ec", setup]).current_dir(&demo).env("REPOSITORY", repository()));
        }
        let text: String = of(Kind::Console).collect();
        let commands: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("$ ")).collect();
        let quoted = |command: &&str| format!("echo '$ {0}'\n{0}\n", command.replace('\'', "'\\''"));
        fs::write(self.0.join("commands"), commands.iter().map(quoted).collect::<String>()).unwrap();
        self.sh("chown -R me: /tmp/demo");
        let printed = self.user("cd /tmp/demo; script -q -e -c 'sh /commands' /dev/null </dev/null");
        assert_eq!(plain(&printed), plain(&text), "{printed}");
        self.user("parhelia check --read-data");
        fs::remove_dir_all(self.0.join("tmp/demo")).unwrap();
    }
}

#[test]
#[ignore = "needs the packages, debootstrap, root, a network and a few minutes: ./dev package test"]
fn what_is_packaged_runs_in_a_bare_root() {
    let version = env!("CARGO_PKG_VERSION");
    let machine = std::env::consts::ARCH;
    let architecture = succeed(Command::new("dpkg").arg("--print-architecture"));
    let deb = built(&format!("parhelia_{version}_{}.deb", architecture.trim()));
    let name = format!("parhelia-{version}-{machine}-linux");
    let tarball = built(&format!("{name}.tar.zst"));
    let scratch = Scratch::new();
    let folder = scratch.path("root");
    let root = Root::new(&folder);

    // The tarball first: what the package depends on is not there yet.
    let unpacked = folder.join("usr/local");
    succeed(Command::new("tar").arg("-C").arg(&unpacked).args(["--strip-components=1", "-xf"]).arg(&tarball));
    assert_eq!(root.user("command -v parhelia"), "/usr/local/bin/parhelia\n");
    root.run_the_example();
    let completions = "share/bash-completion/completions/parhelia share/zsh/site-functions/_parhelia \
                       share/fish/vendor_completions.d/parhelia.fish";
    root.sh(&format!("cd /usr/local; for file in {completions}; do test -s $file; done; rm -r bin/parhelia share/doc/parhelia"));
    root.user("rm -r .local/share/parhelia");

    fs::copy(&deb, folder.join("parhelia.deb")).unwrap();
    root.sh("apt-get update -q && apt-get install -q -y /parhelia.deb");
    assert_eq!(root.user("command -v parhelia; command -v fusermount3"), "/usr/bin/parhelia\n/usr/bin/fusermount3\n");
    assert!(root.user("parhelia version").starts_with(&format!("parhelia {version} ")));
    root.run_the_example();
    let installed = root.sh("dpkg -L parhelia; dpkg --verify parhelia");
    for path in [
        "share/bash-completion/completions/parhelia",
        "share/zsh/vendor-completions/_parhelia",
        "share/fish/vendor_completions.d/parhelia.fish",
        "share/doc/parhelia/copyright",
        "share/doc/parhelia/README.md",
        "lib/systemd/user/parhelia-resume.service",
    ] {
        assert!(installed.lines().any(|line| line == format!("/usr/{path}")), "{path} is not in {installed}");
    }
    assert!(installed.contains("/usr/share/man/man1/parhelia-checkpoint-create.1"), "{installed}");
    // What the unit runs at boot, as systemd would.
    let unit = fs::read_to_string(folder.join("usr/lib/systemd/user/parhelia-resume.service")).unwrap();
    let command = unit.lines().find_map(|line| line.strip_prefix("ExecStart=-")).unwrap();
    assert_eq!(root.user(command), "No session needs to be resumed.\n");
    root.sh("apt-get purge -q -y parhelia; ! command -v parhelia");
}
