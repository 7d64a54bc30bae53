//! A stand-in for whoever gets requests over HTTP: it notes them, and answers as it is told, also not at all.

use std::{
    collections::VecDeque,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use serde_json::Value;

/// A request.
#[derive(Clone, Debug)]
pub struct Request {
    /// Method and path.
    pub line: String,
    /// Headers, their names in small letters.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: String,
}

impl Request {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.body))
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Answer {
    /// A status, further lines of the head, and a body.
    Status(u16, String, String),
    /// The connection is closed without one.
    Cut,
    /// The connection stays, and nothing comes.
    Silence,
}

impl Answer {
    /// A success with a body.
    pub fn json(body: impl Into<Value>) -> Self {
        Answer::Status(200, "Content-Type: application/json\r\n".into(), body.into().to_string())
    }

    /// A status alone.
    pub fn status(status: u16) -> Self {
        Answer::Status(status, String::new(), String::new())
    }
}

/// A program that answers requests which no other answer is kept for.
type Program = Arc<dyn Fn(&Request) -> Answer + Send + Sync>;

#[derive(Default)]
struct Noted {
    requests: Vec<Request>,
    answers: VecDeque<Answer>,
    /// Answers to requests whose line begins so; each is given once.
    kept: Vec<(String, Answer)>,
    program: Option<Program>,
    /// Connections without an answer.
    silent: Vec<TcpStream>,
}

/// The receiver. It ends with the process.
#[derive(Clone)]
pub struct Receiver {
    address: SocketAddr,
    noted: Arc<Mutex<Noted>>,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// A new one, on a port of its own. What it has no answer for it answers with 200.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap_or_else(|e| panic!("no port: {e}"));
        let address = listener.local_addr().unwrap_or_else(|e| panic!("no address: {e}"));
        let receiver = Receiver { address, noted: Arc::default() };
        let for_thread = receiver.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let receiver = for_thread.clone();
                thread::spawn(move || receiver.take(stream));
            }
        });
        receiver
    }

    /// Its address, as the beginning of a URL.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The answers to come, in order.
    pub fn will_answer(&self, answers: impl IntoIterator<Item = Answer>) {
        self.lock().answers.extend(answers);
    }

    /// The answer to the next request whose line begins so, such as `POST /repos/`.
    pub fn will_answer_to(&self, begins: &str, answer: Answer) {
        self.lock().kept.push((begins.to_owned(), answer));
    }

    /// Has a program answer, except where an answer to come is given.
    pub fn answer_by(&self, program: impl Fn(&Request) -> Answer + Send + Sync + 'static) {
        self.lock().program = Some(Arc::new(program));
    }

    /// The requests so far.
    pub fn requests(&self) -> Vec<Request> {
        self.lock().requests.clone()
    }

    /// The requests to a path.
    pub fn requests_to(&self, path: &str) -> Vec<Request> {
        let line = |request: &Request| request.line.split(' ').nth(1) == Some(path);
        self.requests().into_iter().filter(line).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, stream: TcpStream) {
        let Some(request) = read(&stream) else { return };
        let mut noted = self.lock();
        noted.requests.push(request.clone());
        let kept = noted.kept.iter().position(|(begins, _)| request.line.starts_with(begins.as_str()));
        let kept = kept.map(|place| noted.kept.remove(place).1);
        let program = noted.program.clone();
        let known = kept.or_else(|| noted.answers.pop_front());
        let answer = known.unwrap_or_else(|| program.map_or_else(|| Answer::status(200), |program| program(&request)));
        match answer {
            Answer::Status(status, head, body) => {
                drop(noted);
                let head = format!("HTTP/1.1 {status} x\r\nConnection: close\r\nContent-Length: {}\r\n{head}\r\n", body.len());
                let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
            }
            Answer::Cut => {}
            Answer::Silence => noted.silent.push(stream),
        }
    }
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|bytes| *bytes > 0)?;
    let (mut headers, mut length) = (Vec::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let Some((name, value)) = header.trim_end().split_once(": ") else { break };
        let (name, value) = (name.to_lowercase(), value.to_owned());
        if name == "content-length" {
            length = value.parse().ok()?;
        }
        headers.push((name, value));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { line: line.trim_end().to_owned(), headers, body: String::from_utf8_lossy(&body).into_owned() })
}
