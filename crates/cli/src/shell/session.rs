//! The state of a shell, and how it runs a piece of input.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use pelton_engine::{DeviceChoice, PeltonSession, SessionOptions};
use pelton_error::{Error, Result, ResultExt};
use pelton_load::CancelFlag;

use super::names::SessionNames;
use super::{command, device};
use crate::args::{Format, ShellArgs, WarehouseArgs};
use crate::limits::limit_process;
use crate::meter::Meter;
use crate::output::{Output, ending_format};
use crate::pointed::pointed;
use crate::run::{Ran, Runner, print_stats, write_rows};
use crate::screen;
use crate::sql::{existing_warehouse, query_options};
use pelton_sqltext::{Piece, is_word_of_shell, pieces};

/// Rows that a terminal is shown of one result.
const ROWS_SHOWN_MAX: usize = 10_000;
/// Files that read each other: deeper than anybody means.
const READ_DEPTH_MAX: usize = 16;

/// Whether the shell goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Go,
    Leave,
}

/// What dot commands set.
pub(super) struct Settings {
    pub(super) format: Format,
    /// Time and bytes are said after each statement.
    pub(super) timer: bool,
    pub(super) pager: bool,
    pub(super) max_rows: usize,
    /// The file that the next result goes to.
    pub(super) once: Option<PathBuf>,
}

/// One session and what surrounds it.
pub(super) struct Shell {
    session: Arc<PeltonSession>,
    names: SessionNames,
    options: SessionOptions,
    warehouse: WarehouseArgs,
    runner: Runner,
    cancel: CancelFlag,
    pub(super) settings: Settings,
    /// The newest statement, for `.explain`.
    pub(super) last_statement: Option<String>,
    is_typed: bool,
    read_depth: usize,
}

impl Shell {
    /// Opens the session that `args` describe. `is_typed`: a user types and reads; else a script runs.
    ///
    /// # Errors
    ///
    /// Of the session.
    pub(super) fn open(args: ShellArgs, cancel: CancelFlag, is_typed: bool) -> Result<Self> {
        let options = query_options(&args.session, &args.text)?;
        limit_process(options.memory_limit_bytes);
        let session = Arc::new(PeltonSession::open(existing_warehouse(&args.warehouse)?, &options)?);
        let runner = Runner::new(args.session.threads, cancel.clone())?;
        let names = SessionNames::default();
        names.follow(&session, runner.handle());
        let settings = Settings {
            format: Format::Table,
            timer: is_typed,
            pager: true,
            max_rows: ROWS_SHOWN_MAX,
            once: None,
        };
        let warehouse = args.warehouse;
        let (last_statement, read_depth) = (None, 0);
        Ok(Self {
            session,
            names,
            options,
            warehouse,
            runner,
            cancel,
            settings,
            last_statement,
            is_typed,
            read_depth,
        })
    }

    /// What can be completed; follows the session.
    pub(super) fn names(&self) -> SessionNames {
        self.names.clone()
    }

    /// Ends the session: its temporary files go.
    pub(super) fn end(self) {
        self.names.forget();
        drop(self.session);
        self.runner.end();
    }

    /// Runs statements and commands in order, up to the first error.
    ///
    /// # Errors
    ///
    /// Of the first that fails.
    pub(super) fn run_script(&mut self, text: &str) -> Result<Next> {
        for (_, piece) in pieces(text) {
            if self.run_piece(piece)? == Next::Leave {
                return Ok(Next::Leave);
            }
        }
        Ok(Next::Go)
    }

    /// Runs a file of statements and commands.
    ///
    /// # Errors
    ///
    /// Of the first that fails; names the file and the line.
    pub(super) fn read_file(&mut self, path: &Path) -> Result<Next> {
        if self.read_depth == READ_DEPTH_MAX {
            return Err(Error::invalid_input(format!(
                "'{}' is read from {READ_DEPTH_MAX} files that read each other; do they read themselves?",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).context(|| format!("reading '{}'", path.display()))?;
        self.read_depth += 1;
        let result = pieces(&text).into_iter().try_fold(Next::Go, |next, (start, piece)| {
            if next == Next::Leave {
                return Ok(next);
            }
            let line = text[..start].matches('\n').count() + 1;
            self.run_piece(piece).context(|| format!("{}, line {line}", path.display()))
        });
        self.read_depth -= 1;
        result
    }

    /// Runs one statement or command.
    ///
    /// # Errors
    ///
    /// Of what it is.
    pub(super) fn run_piece(&mut self, piece: Piece) -> Result<Next> {
        match piece {
            Piece::Command(line) => command::run(self, line),
            Piece::Statement(word) if is_word_of_shell(word) => command::run(self, word),
            Piece::Statement(sql) => {
                self.last_statement = Some(sql.to_owned());
                self.run_statement(sql).map(|()| Next::Go)
            }
        }
    }

    /// Runs one statement and shows its rows.
    ///
    /// # Errors
    ///
    /// Of the statement, with its place; `Cancelled` after Ctrl-C.
    pub(super) fn run_statement(&mut self, sql: &str) -> Result<()> {
        let started = Instant::now();
        // The next statement has it, whatever becomes of that.
        let once = self.settings.once.take();
        let output = self.output(once);
        let meter = Meter::start();
        let (drawer, session, text) = (Arc::clone(&meter), Arc::clone(&self.session), sql.to_owned());
        let ran = self
            .run_work(&meter, async move { write_rows(session.query(&text).await?, output, drawer).await });
        let elapsed = started.elapsed();
        let ran: Ran = ran.map_err(|error| pointed(error, sql, &self.session))?;
        self.show(ran.held.as_deref().unwrap_or_default())?;
        if self.settings.timer && !ran.query.is_explanation() {
            print_stats(&ran, elapsed)?;
        }
        Ok(())
    }

    /// Shows text, through the pager where it is too large.
    ///
    /// # Errors
    ///
    /// Of writing.
    pub(super) fn show(&self, text: &str) -> Result<()> {
        screen::show(text, self.is_typed && self.settings.pager)
    }

    /// Runs `work` on the pool, where Ctrl-C ends it.
    ///
    /// # Errors
    ///
    /// Of the work; `Cancelled`.
    pub(super) fn run_work<T: Send + 'static>(
        &mut self,
        meter: &Meter,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let result = self.runner.run_blocking(meter, work);
        // A pool that would not end was replaced.
        self.names.follow(&self.session, self.runner.handle());
        result
    }

    /// Where rows go: to `once`, in the format that its ending says, else in that of `.mode`.
    fn output(&self, once: Option<PathBuf>) -> Output {
        let mode = self.settings.format;
        let format = match &once {
            None => Some(mode),
            Some(path) => ending_format(path).or((mode != Format::Table).then_some(mode)),
        };
        Output {
            format,
            path: once,
            max_rows: self.settings.max_rows,
            all_rows_by: ".maxrows 0",
            is_held: self.is_typed,
        }
    }

    /// The session that is open.
    pub(super) fn session(&self) -> Arc<PeltonSession> {
        Arc::clone(&self.session)
    }

    /// The flag that Ctrl-C sets.
    pub(super) fn cancel_flag(&self) -> CancelFlag {
        self.cancel.clone()
    }

    /// The directory of tables, open or not made yet.
    pub(super) fn warehouse(&self) -> &Path {
        &self.warehouse.warehouse
    }

    /// Where queries run.
    pub(super) fn device(&self) -> DeviceChoice {
        self.options.device
    }

    /// Moves the session to another device. Tables, views and settings stay, and pinned tables are pinned for it.
    ///
    /// # Errors
    ///
    /// What the device lacks, and the session stays where it was; or which table could not be pinned again.
    pub(super) fn move_to(&mut self, choice: DeviceChoice) -> Result<()> {
        let moved = self.session.on_device(choice)?;
        self.options.device = choice;
        self.follow(moved);
        if choice == DeviceChoice::Cpu {
            return Ok(()); // the tables to pin are kept for the next device
        }
        self.options.pin.clone().into_iter().try_for_each(|table| self.pin_now(table))
    }

    /// Loads a table into pinned memory.
    ///
    /// # Errors
    ///
    /// Names the table and what is missing.
    pub(super) fn pin(&mut self, table: &str) -> Result<()> {
        self.pin_now(table.to_owned())?;
        if !self.options.pin.iter().any(|pinned| pinned == table) {
            self.options.pin.push(table.to_owned());
        }
        Ok(())
    }

    fn pin_now(&mut self, table: String) -> Result<()> {
        let (session, meter) = (Arc::clone(&self.session), Meter::start());
        self.run_work(&meter, async move { session.pin(&table) })
    }

    /// Opens another warehouse, with what the shell was started with.
    ///
    /// # Errors
    ///
    /// Of opening it; the session then stays as it was.
    pub(super) fn open_warehouse(&mut self, directory: &str) -> Result<()> {
        let warehouse = WarehouseArgs { warehouse: directory.into() };
        let options = SessionOptions { pin: Vec::new(), ..self.options.clone() };
        let opened = PeltonSession::open(existing_warehouse(&warehouse)?, &options)?;
        self.options = options;
        self.warehouse = warehouse;
        self.follow(opened);
        Ok(())
    }

    fn follow(&mut self, session: PeltonSession) {
        self.session = Arc::new(session);
        self.names.follow(&self.session, self.runner.handle());
    }

    /// The sentence about the device that `.device` says.
    pub(super) fn device_text(&self) -> String {
        let choice = self.device();
        format!("device {}: queries run {}", device::name(choice), device::meaning(choice))
    }
}
