//! What an examination found, as text for people and JSON for programs.

use std::fmt::Write;

use serde::Serialize;

/// How one thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// As it should be, or not needed.
    Ok,
    /// There, but less than it could be.
    Limited,
    /// Not there.
    Missing,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }
}

/// What findings belong together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Operating system, processor, memory.
    System,
    /// GPUs and what talks to them.
    Gpu,
    /// Libraries that are used where they are found.
    Libraries,
    /// Files and how they are read.
    Storage,
}

impl Group {
    const ALL: [Group; 4] = [Group::System, Group::Gpu, Group::Libraries, Group::Storage];

    fn word(self) -> &'static str {
        match self {
            Group::System => "system",
            Group::Gpu => "GPU",
            Group::Libraries => "libraries and tools",
            Group::Storage => "storage",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What it belongs to.
    pub group: Group,
    /// What it is.
    pub name: &'static str,
    /// How it is.
    pub state: State,
    /// What was seen.
    pub detail: String,
    /// What it gives, or would give.
    pub gives: &'static str,
    /// A command, or a sentence where no command helps; nothing where nothing is amiss.
    pub fix: Option<String>,
    /// True if nothing works without it.
    pub is_required: bool,
}

impl Finding {
    /// Something that is as it should be.
    pub(super) fn ok(
        group: Group,
        name: &'static str,
        gives: &'static str,
        detail: impl Into<String>,
    ) -> Self {
        Self { group, name, state: State::Ok, detail: detail.into(), gives, fix: None, is_required: false }
    }

    /// The same, not as it should be.
    pub(super) fn but(self, state: State, fix: impl Into<String>) -> Self {
        Self { state, fix: Some(fix.into()), ..self }
    }

    /// The same, indispensable.
    pub(super) fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}

/// All findings, in the order in which they were looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// What was looked at.
    pub findings: Vec<Finding>,
    /// True where there is a GPU, even if it cannot be used yet.
    pub has_gpu: bool,
}

impl Report {
    /// True unless something is missing that nothing works without.
    pub fn is_usable(&self) -> bool {
        !self.findings.iter().any(|finding| finding.is_required && finding.state == State::Missing)
    }

    /// The report for a machine that may have no GPU: there, one line says so in place of the drivers and libraries that
    /// only a GPU needs. With a GPU it is unchanged.
    #[must_use]
    pub fn without_absent_gpu(mut self) -> Self {
        if self.has_gpu {
            return self;
        }
        self.findings.retain(|finding| !matches!(finding.group, Group::Gpu | Group::Libraries));
        let detail = "none: queries run on the CPU; --gpu lists what a GPU needs";
        self.findings.push(Finding::ok(Group::Gpu, "GPUs", "queries on the GPU", detail));
        self
    }

    /// Groups of aligned lines; below them what is amiss, with what it would give and the remedy, the worst last.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        let width = self.findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
        for group in Group::ALL {
            let findings: Vec<&Finding> =
                self.findings.iter().filter(|finding| finding.group == group).collect();
            if findings.is_empty() {
                continue;
            }
            // Writing to a string does not fail.
            let _ = writeln!(text, "{}", group.word());
            for finding in findings {
                let Finding { name, detail, .. } = finding;
                let _ = writeln!(text, "  {name:<width$}  {:<7}  {detail}", finding.state.word());
            }
            text.push('\n');
        }
        self.write_remedies(&mut text);
        text
    }

    fn write_remedies(&self, text: &mut String) {
        // What others stand on is looked for before them, so it comes after them here.
        let mut amiss: Vec<&Finding> =
            self.findings.iter().rev().filter(|finding| finding.state != State::Ok).collect();
        amiss.sort_by_key(|finding| (finding.is_required, finding.state));
        for finding in &amiss {
            let Finding { name, gives, .. } = finding;
            let _ = writeln!(text, "{}: {name}", finding.state.word());
            let _ = writeln!(text, "  gives  {gives}");
            if let Some(fix) = &finding.fix {
                let _ = writeln!(text, "  fix    {fix}");
            }
        }
        let verdict = match (self.is_usable(), amiss.len()) {
            (false, _) => "Pelton cannot run here; the last remedy above comes first.".to_string(),
            (true, 0) => "Nothing is missing.".to_string(),
            (true, count) => format!("Pelton runs here; {count} of {} could be better.", self.findings.len()),
        };
        if !amiss.is_empty() {
            text.push('\n');
        }
        let _ = writeln!(text, "{verdict}");
    }

    /// An object with `is_usable` and `findings`, whose fields are those of [`Finding`].
    pub fn to_json(&self) -> String {
        let value = serde_json::json!({ "is_usable": self.is_usable(), "findings": self.findings });
        format!("{value:#}")
    }
}
