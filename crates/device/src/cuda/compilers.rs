//! NVRTC in processes of their own, for sources that several threads compile at once.
//!
//! ```text
//!   thread ──▶ a process that is idle, or a new one ── its input:  what to compile for, options, source
//!                                                   ◀── its output: the program, or what is wrong with the source
//! ```
//!
//! While NVRTC reads a source it holds a lock of its whole process, for a fifth of the time that it takes for the source (25 of
//! 117 ms). So one process compiles five sources at a time at best; and where threads that hold the lock wait for cores that
//! queries want, all others wait with them (docs/decisions/0029).
//!
//! Such a process ends when its input does, so with the one that started it, or when nobody has asked it for a while. Where
//! it cannot be had or does not answer, the source is compiled here.

use std::cmp::Reverse;
use std::ffi::OsString;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use pelton_error::{CancelFlag, Error, Result};

use super::nvrtc::{Nvrtc, NvrtcArchitecture, nvrtc};
use crate::priority::{Priority, start};

/// Processes at most: each has some 25 MB of its own.
const PROCESSES_MAX: usize = 12;
/// What is added to their niceness: where all cores are busy they get about a tenth of what a query's threads get.
const NICENESS: i32 = 10;
/// A process that nobody has asked for so long ends.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// How often who waits looks how many may be busy.
const LOOK: Duration = Duration::from_millis(20);
/// Of a part of a message; a source has some 50 KB.
const BYTES_MAX: u64 = 1 << 30;

/// How many processes there may be, in place of what follows from the cores; 0 compiles in this one.
const COMPILERS_VARIABLE: &str = "PELTON_COMPILERS";

static COMMAND: OnceLock<Vec<OsString>> = OnceLock::new();

/// Lets processes that `command` starts compile: a program and its arguments, which calls [`serve_compiler`]. The first call of a
/// process counts.
pub fn compile_with(command: Vec<OsString>) {
    COMMAND.get_or_init(|| command);
}

/// Compiles what another process asks for on standard input, until that ends or nobody asks for a while.
///
/// # Errors
///
/// Of the system; what is wrong with a source is an answer.
pub fn serve_compiler() -> io::Result<()> {
    Priority::of_this_thread().nicer_by(NICENESS).take();
    let asked = Arc::new(Mutex::new(Some(Instant::now())));
    let seen = Arc::clone(&asked);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(IDLE_MAX / 10);
            let idle_since = *seen.lock().unwrap_or_else(PoisonError::into_inner);
            if idle_since.is_some_and(|since| since.elapsed() > IDLE_MAX) {
                std::process::exit(0);
            }
        }
    });
    // It takes a while to load, which whoever asks first need not wait for.
    let _ = nvrtc();
    let compile = |request: &Request| {
        let nvrtc = nvrtc()?;
        if nvrtc.version() != request.version {
            return Ok(None);
        }
        let options: Vec<&str> = request.options.iter().map(String::as_str).collect();
        nvrtc.compile(&request.source, request.architecture, &options).map(Some)
    };
    let note = |since| *asked.lock().unwrap_or_else(PoisonError::into_inner) = since;
    serve(&mut io::stdin().lock(), &mut io::stdout().lock(), compile, note)
}

/// Answers requests until there are no more; `note` learns since when nothing is to do, `None` while something is.
fn serve(
    input: &mut impl Read,
    output: &mut impl Write,
    compile: impl Fn(&Request) -> Result<Option<Vec<u8>>>,
    note: impl Fn(Option<Instant>),
) -> io::Result<()> {
    while let Some(request) = Request::read(input)? {
        note(None);
        match compile(&request) {
            Ok(Some(program)) => write_answer(output, DONE, &program)?,
            Ok(None) => write_answer(output, OTHER_VERSION, &[])?,
            Err(error) => write_answer(output, REFUSED, error.to_string().as_bytes())?,
        }
        output.flush()?;
        note(Some(Instant::now()));
    }
    Ok(())
}

const DONE: u8 = 0;
const REFUSED: u8 = 1;
/// Another NVRTC was found there.
const OTHER_VERSION: u8 = 2;

/// What a process is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Request {
    /// Of NVRTC.
    version: (i32, i32),
    architecture: NvrtcArchitecture,
    options: Vec<String>,
    source: String,
}

impl Request {
    fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let (kind, number) = match self.architecture {
            NvrtcArchitecture::Machine(number) => (0, number),
            NvrtcArchitecture::Intermediate(number) => (1, number),
        };
        for number in [self.version.0 as u64, self.version.1 as u64, kind, u64::from(number)] {
            output.write_all(&number.to_le_bytes())?;
        }
        output.write_all(&(self.options.len() as u64).to_le_bytes())?;
        self.options.iter().try_for_each(|option| write_bytes(output, option.as_bytes()))?;
        write_bytes(output, self.source.as_bytes())?;
        output.flush()
    }

    /// The next one; `None` at the end.
    fn read(input: &mut impl Read) -> io::Result<Option<Self>> {
        let mut first = [0; 8];
        if input.read(&mut first[..1])? == 0 {
            return Ok(None);
        }
        input.read_exact(&mut first[1..])?;
        let version = (u64::from_le_bytes(first) as i32, read_number(input)? as i32);
        let (kind, number) = (read_number(input)?, read_number(input)? as u32);
        let architecture = match kind {
            0 => NvrtcArchitecture::Machine(number),
            _ => NvrtcArchitecture::Intermediate(number),
        };
        let count = read_number(input)?;
        let options = (0..count).map(|_| read_text(input)).collect::<io::Result<_>>()?;
        Ok(Some(Self { version, architecture, options, source: read_text(input)? }))
    }
}

fn write_answer(output: &mut impl Write, kind: u8, bytes: &[u8]) -> io::Result<()> {
    output.write_all(&[kind])?;
    write_bytes(output, bytes)
}

fn write_bytes(output: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    output.write_all(&(bytes.len() as u64).to_le_bytes())?;
    output.write_all(bytes)
}

fn read_number(input: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    input.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}

fn read_bytes(input: &mut impl Read) -> io::Result<Vec<u8>> {
    let length = read_number(input)?;
    if length > BYTES_MAX {
        return Err(io::Error::other("a message between a compiler and its user that is too long"));
    }
    let mut bytes = vec![0; length as usize];
    input.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn read_text(input: &mut impl Read) -> io::Result<String> {
    String::from_utf8(read_bytes(input)?).map_err(io::Error::other)
}

/// A process that compiles.
struct Compiler {
    child: Child,
    input: BufWriter<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Compiler {
    /// Starts one that gives way to this process's threads, whichever of them asks.
    fn start(command: &[OsString]) -> io::Result<Self> {
        let (answer, started) = channel();
        let command = command.to_vec();
        // It begins with the priority of the thread that starts it, and cannot raise that again.
        start("pelton-compilers".to_owned(), move || {
            let mut child = Command::new(&command[0]);
            child.args(&command[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
            // A Ctrl-C at a terminal is for this process alone, which may go on.
            let _ = answer.send(child.process_group(0).spawn());
        })?;
        let mut child = started.recv().map_err(io::Error::other)??;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("a process without pipes"));
        };
        Ok(Self { child, input: BufWriter::new(input), output: BufReader::new(output) })
    }

    /// The program, or what is wrong with the source; `None` where the process has another NVRTC.
    fn ask(&mut self, request: &Request) -> io::Result<Option<Result<Vec<u8>>>> {
        request.write(&mut self.input)?;
        let mut kind = [0];
        self.output.read_exact(&mut kind)?;
        let bytes = read_bytes(&mut self.output)?;
        Ok(match kind[0] {
            DONE => Some(Ok(bytes)),
            REFUSED => Some(Err(Error::unsupported(String::from_utf8_lossy(&bytes).into_owned()))),
            _ => None,
        })
    }
}

impl Drop for Compiler {
    /// Ends it, or takes note that it has ended: otherwise the system would.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes that compile, one for each source at a time.
struct Compilers {
    command: Vec<OsString>,
    most: usize,
    held: Mutex<Held>,
    freed: Condvar,
    /// They cannot be started here, or do not do what they are asked.
    is_given_up: AtomicBool,
}

#[derive(Default)]
struct Held {
    idle: Vec<Compiler>,
    busy: usize,
    waiting: Vec<Waiting>,
    /// The number of the next one that waits.
    next: u64,
}

impl Held {
    /// Whether it is the turn of the one that waits as number `of`: of those that save as much, the oldest goes first.
    fn is_next(&self, of: u64) -> bool {
        let may_go = self.waiting.iter().filter(|waiting| self.busy < waiting.at_once);
        may_go
            .max_by_key(|waiting| (waiting.saves, Reverse(waiting.number)))
            .is_some_and(|next| next.number == of)
    }
}

/// Somebody who waits for a process.
struct Waiting {
    number: u64,
    /// How many processes may be busy, with the one waited for.
    at_once: usize,
    /// What its program may save.
    saves: Duration,
}

impl Compilers {
    fn new(command: Vec<OsString>, most: usize) -> Self {
        Self {
            command,
            most,
            held: Mutex::default(),
            freed: Condvar::new(),
            is_given_up: AtomicBool::new(false),
        }
    }

    /// Waits until a process may be asked, which it takes where there is one. Whose program saves most goes first, among those
    /// that may go at all while so many are busy.
    ///
    /// # Errors
    ///
    /// `Cancelled`.
    fn take(&self, cancel: &CancelFlag) -> Result<Option<Compiler>> {
        let mut held = self.held();
        let number = held.next;
        held.next += 1;
        loop {
            held.waiting.retain(|waiting| waiting.number != number);
            cancel.check()?;
            let at_once = cancel.at_once(self.most).min(self.most);
            held.waiting.push(Waiting { number, at_once, saves: cancel.saves() });
            if held.is_next(number) {
                break;
            }
            // How many there may be changes without notice.
            held = self.freed.wait_timeout(held, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        held.waiting.retain(|waiting| waiting.number != number);
        held.busy += 1;
        self.freed.notify_all();
        held.idle.retain_mut(|compiler| matches!(compiler.child.try_wait(), Ok(None)));
        // The others may have nobody to ask them any more, and end.
        Ok(held.idle.pop())
    }

    fn put_back(&self, compiler: Option<Compiler>) {
        let mut held = self.held();
        held.busy -= 1;
        held.idle.extend(compiler);
        held.idle.retain_mut(|compiler| matches!(compiler.child.try_wait(), Ok(None)));
        drop(held);
        self.freed.notify_all();
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program, or what is wrong with the source; `None` where no process can say that.
    fn compile(&self, request: &Request, cancel: &CancelFlag) -> Option<Result<Vec<u8>>> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return None;
        }
        let taken = match self.take(cancel) {
            Ok(taken) => taken,
            Err(error) => return Some(Err(error)),
        };
        let asked = taken.and_then(|mut compiler| match compiler.ask(request) {
            Ok(answer) => Some((compiler, answer)),
            Err(_) => None, // it has ended meanwhile
        });
        let (compiler, answer) = match asked {
            Some((compiler, answer)) => (Some(compiler), answer),
            None => {
                let asked = Compiler::start(&self.command).and_then(|mut compiler| {
                    let answer = compiler.ask(request)?;
                    Ok((compiler, answer))
                });
                match asked {
                    Ok((compiler, answer)) => (Some(compiler), answer),
                    Err(_) => (None, None),
                }
            }
        };
        if answer.is_none() {
            self.is_given_up.store(true, Ordering::Relaxed);
        }
        self.put_back(compiler);
        answer
    }
}

impl Nvrtc {
    /// As [`compile`](Self::compile), in another process where this one has said how to start such, else in this one. How many
    /// are busy at once follows from the pace of `cancel`; of several that wait for one the one that saves most goes first.
    ///
    /// # Errors
    ///
    /// As [`compile`](Self::compile); `Cancelled` while it waits.
    pub fn compile_beside(
        &self,
        source: &str,
        architecture: NvrtcArchitecture,
        options: &[&str],
        cancel: &CancelFlag,
    ) -> Result<Vec<u8>> {
        static COMPILERS: OnceLock<Option<Compilers>> = OnceLock::new();
        let compilers = COMPILERS.get_or_init(|| {
            let command = COMMAND.get()?.clone();
            let most = processes_max(std::env::var(COMPILERS_VARIABLE).ok().as_deref());
            (most > 0).then(|| Compilers::new(command, most))
        });
        let Some(compilers) = compilers else { return self.compile(source, architecture, options) };
        let request = Request {
            version: self.version(),
            architecture,
            options: options.iter().map(|option| (*option).to_owned()).collect(),
            source: source.to_owned(),
        };
        compilers.compile(&request, cancel).unwrap_or_else(|| self.compile(source, architecture, options))
    }
}

/// As the variable says, or as follows from the cores.
fn processes_max(variable: Option<&str>) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, Into::into);
    let said = variable.and_then(|text| text.trim().parse().ok());
    said.unwrap_or_else(|| (cores() * 3 / 4).clamp(1, PROCESSES_MAX))
}

#[cfg(test)]
mod tests {
    use pelton_error::{ErrorKind, Pace};

    use super::*;

    fn request(source: &str) -> Request {
        Request {
            version: (13, 0),
            architecture: NvrtcArchitecture::Machine(90),
            options: vec!["-a".to_owned(), String::new()],
            source: source.to_owned(),
        }
    }

    /// Requests as they go over a pipe.
    fn written(requests: &[Request]) -> Vec<u8> {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| request.write(&mut bytes).unwrap());
        bytes
    }

    #[test]
    fn requests_come_as_they_were_sent_and_are_answered_in_turn() {
        let intermediate = NvrtcArchitecture::Intermediate(100);
        let requests =
            [request("one"), Request { architecture: intermediate, ..request("") }, request("bad")];
        let (sent, mut answers, notes) = (written(&requests), Vec::new(), Mutex::new(Vec::new()));
        let seen = Mutex::new(Vec::new());
        let compile = |request: &Request| {
            seen.lock().unwrap().push(request.clone());
            match request.source.as_str() {
                "bad" => Err(Error::unsupported("no")),
                "" => Ok(None),
                source => Ok(Some(source.as_bytes().to_vec())),
            }
        };
        serve(&mut sent.as_slice(), &mut answers, compile, |note| notes.lock().unwrap().push(note.is_some()))
            .unwrap();
        assert_eq!(*seen.lock().unwrap(), requests);
        assert_eq!(*notes.lock().unwrap(), [false, true, false, true, false, true]);
        let mut expected = Vec::new();
        write_answer(&mut expected, DONE, b"one").unwrap();
        write_answer(&mut expected, OTHER_VERSION, b"").unwrap();
        write_answer(&mut expected, REFUSED, Error::unsupported("no").to_string().as_bytes()).unwrap();
        assert_eq!(answers, expected);
        let cut = &sent[..sent.len() - 1];
        assert!(serve(&mut { cut }, &mut Vec::new(), |_| Ok(None), |_| ()).is_err());
    }

    #[test]
    fn the_variable_says_how_many_there_are() {
        assert_eq!([" 3 ", "0", "40"].map(|text| processes_max(Some(text))), [3, 0, 40]);
        let by_cores = processes_max(None);
        assert!((1..=PROCESSES_MAX).contains(&by_cores));
        assert_eq!(processes_max(Some("many")), by_cores);
    }

    fn shell(script: &str) -> Vec<OsString> {
        ["sh", "-c", script].map(OsString::from).to_vec()
    }

    #[test]
    fn a_process_answers_again_and_again_and_another_takes_its_place_once_it_has_ended() {
        // It takes what a request has, and answers with the number of its process.
        let length = written(&[request("source")]).len();
        let once = format!("head -c {length} >/dev/null; printf '\\0\\10\\0\\0\\0\\0\\0\\0\\0%08d' $$");
        let program = |compilers: &Compilers| {
            let program = compilers.compile(&request("source"), &CancelFlag::new()).unwrap().unwrap();
            String::from_utf8(program).unwrap()
        };
        let lasting = Compilers::new(shell(&format!("while true; do {once}; done")), 3);
        let first = program(&lasting);
        assert_eq!((program(&lasting), program(&lasting)), (first.clone(), first.clone()));
        assert_eq!(lasting.held().idle.len(), 1);
        let single = Compilers::new(shell(&once), 3);
        let first = program(&single);
        std::thread::sleep(Duration::from_millis(50));
        assert_ne!(program(&single), first);
        assert!(!single.is_given_up.load(Ordering::Relaxed));
    }

    #[test]
    fn what_no_process_compiles_is_left_to_this_one() {
        for command in [
            shell("exit 3"),
            vec![OsString::from("/no/such/program")],
            shell("printf '\\2\\0\\0\\0\\0\\0\\0\\0\\0'"),
        ] {
            let compilers = Compilers::new(command, 1);
            assert!(compilers.compile(&request("source"), &CancelFlag::new()).is_none());
            assert!(compilers.is_given_up.load(Ordering::Relaxed));
            assert_eq!(compilers.held().busy, 0);
        }
    }

    #[test]
    fn at_most_so_many_are_asked_at_once() {
        let length = written(&[request("source")]).len();
        let script = format!(
            "while true; do head -c {length} >/dev/null; sleep 0.02; printf '\\1\\1\\0\\0\\0\\0\\0\\0\\0x'; done"
        );
        let compilers = Compilers::new(shell(&script), 2);
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let refusal =
                        compilers.compile(&request("source"), &CancelFlag::new()).unwrap().unwrap_err();
                    assert_eq!(refusal.to_string(), "x");
                });
            }
        });
        let held = compilers.held();
        assert!(held.busy == 0 && (1..=2).contains(&held.idle.len()), "{}", held.idle.len());
    }

    /// Work in the background.
    #[derive(Debug)]
    struct Saving {
        saves_ms: u64,
        at_once: usize,
    }

    impl Pace for Saving {
        fn wait_for(&self, _bytes: u64, _is_cancelled: &dyn Fn() -> bool) {}

        fn saves(&self) -> Duration {
            Duration::from_millis(self.saves_ms)
        }

        fn at_once(&self, most: usize) -> usize {
            most.min(self.at_once)
        }
    }

    fn saving(saves_ms: u64, at_once: usize) -> CancelFlag {
        CancelFlag::new().at_pace(Arc::new(Saving { saves_ms, at_once }))
    }

    #[test]
    fn of_those_that_wait_whoever_saves_most_goes_first() {
        let compilers = Compilers::new(shell("exit 1"), 1);
        assert!(compilers.take(&CancelFlag::new()).unwrap().is_none(), "there was none before");
        let order = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for (number, saves_ms) in [1, 9, 4, 9].into_iter().enumerate() {
                let (compilers, order) = (&compilers, &order);
                scope.spawn(move || {
                    compilers.take(&saving(saves_ms, 1)).unwrap();
                    order.lock().unwrap().push((saves_ms, number));
                    compilers.put_back(None);
                });
                while compilers.held().waiting.len() <= number {
                    std::thread::yield_now();
                }
            }
            assert!(order.lock().unwrap().is_empty(), "the only one is busy");
            compilers.put_back(None);
        });
        assert_eq!(*order.lock().unwrap(), [(9, 1), (9, 3), (4, 2), (1, 0)]);
        assert_eq!(compilers.held().busy, 0);
    }

    #[test]
    fn who_may_not_go_while_so_many_are_busy_stops_nobody_else_and_can_be_cancelled() {
        let compilers = Compilers::new(shell("exit 1"), 3);
        compilers.take(&saving(1, 1)).unwrap();
        let patient = saving(9, 1);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| compilers.take(&patient).map(|_| ()).unwrap_err());
            while compilers.held().waiting.is_empty() {
                std::thread::yield_now();
            }
            compilers.take(&saving(0, 2)).unwrap();
            compilers.take(&CancelFlag::new()).unwrap();
            assert_eq!(compilers.held().busy, 3);
            assert!(!waiting.is_finished());
            patient.cancel();
            assert!(is_cancelled(&waiting.join().unwrap()));
        });
        assert!(compilers.held().waiting.is_empty());
    }

    fn is_cancelled(error: &Error) -> bool {
        *error.kind() == ErrorKind::Cancelled
    }
}
