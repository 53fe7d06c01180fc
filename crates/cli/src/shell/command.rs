//! Dot commands: one table of what they are called, what they take and what they do.

use std::path::Path;

use clap::{Parser, ValueEnum};
use pelton_error::{Error, Result};
use pelton_store::Warehouse;

use super::complete::{self, Offer};
use super::names::{Names, SessionNames};
use super::session::{Next, Shell};
use super::{listing, words};
use crate::args::{Format, LoadArgs};
use crate::meter::Meter;
use crate::{console, load};
use pelton_sqltext::nearest;

/// A dot command.
struct Command {
    name: &'static str,
    takes: &'static str,
    help: &'static str,
    completes: Completes,
    /// Gets the rest of the line.
    act: fn(&mut Shell, &str) -> Result<Next>,
}

/// What Tab offers for its argument.
enum Completes {
    Nothing,
    Tables,
    Files,
    Modes,
    Words(&'static [&'static str]),
}

const SWITCH: Completes = Completes::Words(&["on", "off"]);

const COMMANDS: [Command; 17] = [
    Command {
        name: "tables",
        takes: "",
        help: "list tables and views",
        completes: Completes::Nothing,
        act: tables,
    },
    Command {
        name: "schema",
        takes: "[TABLE]",
        help: "show the columns of a table, or of all",
        completes: Completes::Tables,
        act: schema,
    },
    Command {
        name: "load",
        takes: "TABLE FILES… [FLAGS]",
        help: "load files into a table; flags as of `pelton load`, such as --append",
        completes: Completes::Files,
        act: load_files,
    },
    Command {
        name: "open",
        takes: "DIR",
        help: "open another warehouse; views of this session go",
        completes: Completes::Files,
        act: open,
    },
    Command {
        name: "read",
        takes: "FILE",
        help: "run the statements and commands of a file",
        completes: Completes::Files,
        act: read,
    },
    Command {
        name: "explain",
        takes: "[analyze] [STATEMENT]",
        help: "show the plan of a statement, or of the last one; analyze runs it",
        completes: Completes::Words(&["analyze"]),
        act: explain,
    },
    Command {
        name: "mode",
        takes: "[MODE]",
        help: "how rows are written: table, csv, tsv, json, markdown, line; parquet and arrow with .once",
        completes: Completes::Modes,
        act: mode,
    },
    Command {
        name: "once",
        takes: "FILE",
        help: "write the rows of the next statement to a file; its ending says how, else .mode does",
        completes: Completes::Files,
        act: once,
    },
    Command {
        name: "maxrows",
        takes: "[N]",
        help: "rows of a result that are drawn; 0 draws all",
        completes: Completes::Nothing,
        act: max_rows,
    },
    Command {
        name: "pager",
        takes: "[on|off]",
        help: "page what is larger than the terminal ($PELTON_PAGER, $PAGER or less)",
        completes: SWITCH,
        act: pager,
    },
    Command {
        name: "timer",
        takes: "[on|off]",
        help: "say time, bytes read and skipped after each statement",
        completes: SWITCH,
        act: timer,
    },
    Command {
        name: "device",
        takes: "[auto|cpu|gpu|gpu:N|gpu+host]",
        help: "where queries run; views and settings stay",
        completes: Completes::Words(&["auto", "cpu", "gpu", "gpu:0"]),
        act: device,
    },
    Command {
        name: "pin",
        takes: "TABLE",
        help: "keep a table in pinned memory, for a GPU",
        completes: Completes::Tables,
        act: pin,
    },
    Command { name: "show", takes: "", help: "show the settings", completes: Completes::Nothing, act: show },
    Command { name: "help", takes: "", help: "this list", completes: Completes::Nothing, act: help },
    Command {
        name: "quit",
        takes: "",
        help: "leave; so does Ctrl-D",
        completes: Completes::Nothing,
        act: quit,
    },
    Command { name: "exit", takes: "", help: "the same", completes: Completes::Nothing, act: quit },
];

/// Runs `line`, a command without its dot.
///
/// # Errors
///
/// Of the command; where there is none of the name, which is nearest.
pub(super) fn run(shell: &mut Shell, line: &str) -> Result<Next> {
    let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.trim_end_matches(';');
    let lower = name.to_lowercase();
    match COMMANDS.iter().find(|command| command.name == lower) {
        Some(command) => (command.act)(shell, rest.trim().trim_end_matches(';').trim_end()),
        None => {
            let meant = nearest(name, COMMANDS.iter().map(|command| command.name));
            let meant = meant.map(|near| format!("did you mean .{near}? ")).unwrap_or_default();
            Err(Error::invalid_input(format!("no command .{name}; {meant}.help lists them")))
        }
    }
}

/// What Tab offers in a line that is a dot command; `None` for any other.
pub(super) fn complete(line: &str, position: usize, names: &SessionNames) -> Option<Offer> {
    let indent = line.len() - line.trim_start().len();
    let typed = line.get(indent..position)?.strip_prefix('.')?;
    let Some((name, rest)) = typed.split_once(' ') else {
        let offered = COMMANDS.iter().map(|command| command.name.to_owned());
        let mut offered: Vec<String> = offered.filter(|name| name.starts_with(typed)).collect();
        offered.sort();
        return Some((indent + 1, offered));
    };
    let command = COMMANDS.iter().find(|command| command.name == name)?;
    let word = rest.rsplit(' ').next().unwrap_or_default();
    let start = position - word.len();
    let offered: Vec<String> = match &command.completes {
        Completes::Nothing => Vec::new(),
        Completes::Files => {
            return Some(complete::files(line, position - word.trim_start_matches('\'').len(), position));
        }
        Completes::Tables => names.tables(),
        Completes::Modes => mode_names(),
        Completes::Words(words) => words.iter().map(|word| (*word).to_owned()).collect(),
    };
    Some((start, offered.into_iter().filter(|offer| offer.starts_with(word)).collect()))
}

fn tables(shell: &mut Shell, rest: &str) -> Result<Next> {
    nothing_more("tables", rest)?;
    let session = shell.session();
    let text = shell.run_work(&Meter::start(), listing::tables(session))?;
    shell.show(&text).map(|()| Next::Go)
}

fn schema(shell: &mut Shell, rest: &str) -> Result<Next> {
    let table = words::split(rest)?.into_iter().next();
    let session = shell.session();
    let text = shell.run_work(&Meter::start(), listing::schema(session, table))?;
    shell.show(&text).map(|()| Next::Go)
}

/// Parses the flags of `pelton load` in a line of the shell.
#[derive(Parser)]
#[command(name = ".load", no_binary_name = true, disable_help_flag = true)]
struct LoadLine {
    #[command(flatten)]
    load: LoadArgs,
}

fn load_files(shell: &mut Shell, rest: &str) -> Result<Next> {
    let mut words = words::split(rest)?.into_iter();
    let Some(table) = words.next().filter(|word| !word.starts_with('-')) else { return Err(usage("load")) };
    let warehouse = shell.warehouse().display().to_string();
    let line =
        ["--warehouse".to_owned(), warehouse.clone(), "--table".to_owned(), table].into_iter().chain(words);
    let parsed = LoadLine::try_parse_from(line).map_err(|error| {
        let text = error.render().to_string();
        Error::invalid_input(text.trim_start_matches("error: ").trim_end().to_owned())
    })?;
    let is_new = Warehouse::open(shell.warehouse()).is_err();
    load::load_files(&parsed.load, &shell.cancel_flag())?;
    if is_new {
        shell.open_warehouse(&warehouse)?; // the session was opened before there was one
    }
    Ok(Next::Go)
}

fn open(shell: &mut Shell, rest: &str) -> Result<Next> {
    let directory = one("open", rest)?;
    shell.open_warehouse(&directory)?;
    say(&format!("warehouse {directory} is open; views of the one before are gone"))
}

fn read(shell: &mut Shell, rest: &str) -> Result<Next> {
    let file = one("read", rest)?;
    shell.read_file(Path::new(&file))
}

fn explain(shell: &mut Shell, rest: &str) -> Result<Next> {
    let (first, more) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (verb, statement) =
        if first.eq_ignore_ascii_case("analyze") { ("EXPLAIN ANALYZE", more) } else { ("EXPLAIN", rest) };
    let statement = match (statement.trim(), &shell.last_statement) {
        ("", None) => return Err(Error::invalid_input("no statement has run yet; write one after .explain")),
        ("", Some(last)) => last.clone(),
        (statement, _) => statement.to_owned(),
    };
    shell.run_statement(&format!("{verb} {statement}")).map(|()| Next::Go)
}

fn mode_names() -> Vec<String> {
    let names = Format::value_variants().iter().filter_map(|format| format.to_possible_value());
    names.map(|value| value.get_name().to_owned()).collect()
}

fn mode(shell: &mut Shell, rest: &str) -> Result<Next> {
    if rest.is_empty() {
        return say(&format!("mode {}", mode_name(shell.settings.format)));
    }
    let format = Format::from_str(rest, true).map_err(|_| {
        Error::invalid_input(format!("no mode '{rest}'; there are {}", mode_names().join(", ")))
    })?;
    shell.settings.format = format;
    Ok(Next::Go)
}

fn mode_name(format: Format) -> String {
    format.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

fn once(shell: &mut Shell, rest: &str) -> Result<Next> {
    shell.settings.once = Some(one("once", rest)?.into());
    Ok(Next::Go)
}

fn max_rows(shell: &mut Shell, rest: &str) -> Result<Next> {
    if rest.is_empty() {
        return say(&format!("maxrows {}", shell.settings.max_rows));
    }
    shell.settings.max_rows = rest
        .parse()
        .map_err(|_| Error::invalid_input(format!("'{rest}' is no number of rows; 0 draws all")))?;
    Ok(Next::Go)
}

fn pager(shell: &mut Shell, rest: &str) -> Result<Next> {
    switch("pager", rest, &mut shell.settings.pager)
}

fn timer(shell: &mut Shell, rest: &str) -> Result<Next> {
    switch("timer", rest, &mut shell.settings.timer)
}

fn device(shell: &mut Shell, rest: &str) -> Result<Next> {
    if !rest.is_empty() {
        shell.move_to(rest.parse()?)?;
    }
    say(&shell.device_text())
}

fn pin(shell: &mut Shell, rest: &str) -> Result<Next> {
    let table = one("pin", rest)?;
    shell.pin(&table)?;
    say(&format!("table {table} is in pinned memory"))
}

fn help(_: &mut Shell, rest: &str) -> Result<Next> {
    nothing_more("help", rest)?;
    let heading = |command: &Command| format!(".{} {}", command.name, command.takes);
    let width = COMMANDS.iter().map(|command| heading(command).chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for command in &COMMANDS {
        text.push_str(&format!("{:<width$}  {}\n", heading(command), command.help));
    }
    text.push_str(
        "\nAnything else is SQL and ends with a semicolon. Tab completes, Up recalls, Ctrl-R searches,\n\
         Ctrl-C cancels what runs and clears what is typed. Files are tables too: SELECT * FROM 'trips.parquet';\n\
         What starts with a blank is not kept in the history.",
    );
    say(&text)
}

fn quit(_: &mut Shell, rest: &str) -> Result<Next> {
    nothing_more("quit", rest).map(|()| Next::Leave)
}

fn show(shell: &mut Shell, rest: &str) -> Result<Next> {
    nothing_more("show", rest)?;
    let on = |is_on: bool| if is_on { "on" } else { "off" };
    let settings = &shell.settings;
    say(&format!(
        "warehouse {}\n{}\nmode {}, maxrows {}, timer {}, pager {}",
        shell.warehouse().display(),
        shell.device_text(),
        mode_name(settings.format),
        settings.max_rows,
        on(settings.timer),
        on(settings.pager),
    ))
}

/// What a command answers is data of the shell's user and no row of a result.
fn say(text: &str) -> Result<Next> {
    console::say(text);
    Ok(Next::Go)
}

fn switch(name: &str, rest: &str, is_on: &mut bool) -> Result<Next> {
    match rest.to_lowercase().as_str() {
        "" => return say(&format!("{name} {}", if *is_on { "on" } else { "off" })),
        "on" => *is_on = true,
        "off" => *is_on = false,
        _ => return Err(usage(name)),
    }
    Ok(Next::Go)
}

/// The one argument that `rest` holds.
fn one(name: &str, rest: &str) -> Result<String> {
    let mut words = words::split(rest)?;
    if words.len() == 1 { Ok(words.remove(0)) } else { Err(usage(name)) }
}

fn nothing_more(name: &str, rest: &str) -> Result<()> {
    if rest.is_empty() { Ok(()) } else { Err(usage(name)) }
}

fn usage(name: &str) -> Error {
    let command = COMMANDS.iter().find(|command| command.name == name);
    let takes = command.map(|command| command.takes).unwrap_or_default();
    Error::invalid_input(format!("it reads: .{name} {takes}").trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(line: &str) -> Option<Vec<String>> {
        complete(line, line.len(), &SessionNames::default()).map(|(_, offered)| offered)
    }

    #[test]
    fn commands_and_their_arguments_are_completed() {
        assert_eq!(offered(".ta").unwrap(), ["tables"]);
        assert_eq!(offered(".p").unwrap(), ["pager", "pin"]);
        assert_eq!(offered(".mode ma").unwrap(), ["markdown"]);
        assert_eq!(offered(".timer o").unwrap(), ["on", "off"]);
        assert_eq!(offered(".device c").unwrap(), ["cpu"]);
        assert_eq!(offered("SELECT .5"), None);
    }

    #[test]
    fn no_name_is_taken_twice_and_all_say_what_they_do() {
        for (index, command) in COMMANDS.iter().enumerate() {
            assert!(COMMANDS[..index].iter().all(|other| other.name != command.name), "{}", command.name);
            assert!(!command.help.is_empty());
        }
    }
}
