//! Overflow: where kernels look for it, and under which conditions it counts.
//!
//! ```text
//!   bounds show that the result fits        no code at all
//!   they do not                             const Checked<i64> i_7 = checked_add(x_1, x_2);
//!                                           if (i_7.overflows && n_3 && guard) overflow = 2;
//!   after all rows                          if (overflow) …flags…
//! ```
//!
//! A thread notes the number of a check that found something in a register; the flags of the pipeline get it once, at
//! the end, and the run reads them when it waits anyway. It then answers `Unsupported`, and the CPU runs the query: it
//! alone knows whether SQL would have evaluated the expression there, and its error names value and expression. So a
//! check may be too strict, but never too lax. Rows that conditions have dropped, NULLs, and the branches of CASE, AND
//! and OR that are not reached do not count: those are the guards.
//!
//! What a check leaves in place of a result that does not fit is some value of the type within the bounds that are
//! known from then on, because bounds decide where later code writes.

/// The register in which a thread notes the check that found an overflow.
const REGISTER: &str = "overflow";

/// The checks of one kernel.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    /// Bounds are not believed: every operation that could overflow its type is checked, to measure what that costs.
    is_everywhere: bool,
    /// What each finds, for messages: "… may overflow".
    sites: Vec<String>,
}

impl Checks {
    pub(crate) fn new(is_everywhere: bool) -> Self {
        Self { is_everywhere, sites: Vec::new() }
    }

    /// Whether what is shown to fit, or not, is checked.
    pub(crate) fn is_needed(&self, is_shown_to_fit: bool) -> bool {
        self.is_everywhere || !is_shown_to_fit
    }

    /// The number of one more check, which finds `what`.
    pub(crate) fn add(&mut self, what: String) -> u32 {
        self.sites.push(what);
        self.sites.len() as u32
    }

    /// Notes that check `number` found something where `condition` holds: a comparison and a move.
    pub(crate) fn statement(condition: &str, number: u32) -> String {
        format!("if ({condition}) {}", Self::note(number))
    }

    /// Notes that check `number` found something.
    pub(crate) fn note(number: u32) -> String {
        format!("{REGISTER} = {number};")
    }

    /// What the register is before any row.
    pub(crate) fn declaration() -> String {
        format!("u32 {REGISTER} = 0;")
    }

    /// From the register to `flags`, after all rows; `None` where nothing is checked.
    pub(crate) fn report(&self, flags: impl FnOnce() -> String) -> Option<String> {
        let is_any = !self.sites.is_empty();
        is_any.then(|| format!("if ({REGISTER}) report_overflow({}, {REGISTER});", flags()))
    }

    /// What the checks find, in order.
    pub(crate) fn into_sites(self) -> Vec<String> {
        self.sites
    }
}
