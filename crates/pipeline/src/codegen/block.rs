//! Text of generated code: lines, indentation, fresh names; of one row, or of the rows of a slice.
//!
//! ```text
//!   rows of a slice   const T x = …;      T x_1[32]; SLICE x_1[lane] = …;      and the name is x_1[lane]
//!                     if (b) {            the slice's `live` loses the rows where it does not hold
//!        │ a line of its own, or a scope
//!        ▼
//!   one row           while (live) { const u32 lane = …; …                    x_1[lane] is still there
//! ```
//!
//! Code begins with the rows of a slice where kernels go through slices (`cuda/pipeline/slice.h`), and goes over to single
//! rows with the first thing that cannot be said of 32 rows at once. In a slice, values are computed for rows too that
//! are not live, so nothing there may have an effect, and what leads to memory goes through [`Block::place`].

/// A piece of generated code.
#[derive(Debug, Default)]
pub(crate) struct Block {
    text: String,
    depth: usize,
    names: usize,
    slice: Slice,
}

/// What the code is of.
#[derive(Debug, Clone, Copy, Default)]
enum Slice {
    /// One row; loops over rows are not this block's.
    #[default]
    None,
    /// 32 rows.
    Rows,
    /// One row of a slice, whose code begins at this byte of the text, in a scope this deep.
    Row { at: usize, depth: usize },
}

impl Block {
    /// Code of the rows of a slice.
    pub(crate) fn of_slices() -> Self {
        Self { slice: Slice::Rows, ..Self::default() }
    }

    /// Whether the code is of the rows of a slice, not of one row.
    pub(crate) fn is_slice(&self) -> bool {
        matches!(self.slice, Slice::Rows)
    }

    /// Whether the code is of one row of a slice.
    pub(crate) fn is_row_of_slice(&self) -> bool {
        matches!(self.slice, Slice::Row { .. })
    }

    /// The code is of one row from here on.
    pub(crate) fn each_row(&mut self) {
        if !self.is_slice() {
            return;
        }
        self.push("while (live) {");
        self.depth += 1;
        self.push("const u32 lane = trailing_zeros(live);");
        self.push("live &= live - 1;");
        self.push("{");
        self.depth += 1;
        self.slice = Slice::Row { at: self.text.len(), depth: self.depth };
    }

    /// Appends a line, of one row.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        self.each_row();
        self.push(line.as_ref());
    }

    /// Appends a line that opens a scope, of one row.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// Appends a line of every lane of a slice, or of one row.
    pub(crate) fn each_lane(&mut self, line: impl AsRef<str>) {
        match self.is_slice() {
            true => self.push(&format!("SLICE {{ {} }}", line.as_ref())),
            false => self.push(line.as_ref()),
        }
    }

    /// Appends a line of a slice as a whole.
    pub(crate) fn slice_line(&mut self, line: impl AsRef<str>) {
        debug_assert!(self.is_slice());
        self.push(line.as_ref());
    }

    /// Rows for which `condition` does not hold go no further.
    pub(crate) fn keep_if(&mut self, condition: &str) {
        if !self.is_slice() {
            return self.open(format!("if ({condition}) {{"));
        }
        let kept = self.name("b");
        self.push(&format!("bool {kept}[32]; SLICE {kept}[lane] = {condition};"));
        self.keep_lanes(&format!("bits_of_bools({kept})"));
    }

    /// Rows of a slice go no further whose bit `bits` does not have.
    pub(crate) fn keep_lanes(&mut self, bits: &str) {
        debug_assert!(self.is_slice());
        self.push(&format!("live &= {bits};"));
        self.push("if (!live) continue;");
    }

    /// Opens a loop over the rows of a slice that have come so far, whose code is of one row, and ends with
    /// [`Self::close_rows`]. The word of it that has a bit for each row that goes on.
    pub(crate) fn open_rows(&mut self) -> String {
        debug_assert!(self.is_slice());
        let kept = self.name("k");
        self.push(&format!("u32 {kept} = 0;"));
        self.push("EACH_LIVE_LANE {");
        self.depth += 1;
        self.slice = Slice::None;
        kept
    }

    /// Ends the loop that [`Self::open_rows`] began and gave `kept`: rows for which `condition` does not hold go no further.
    pub(crate) fn close_rows(&mut self, kept: &str, condition: &str) {
        self.push(&format!("{kept} |= u32({condition}) << lane;"));
        self.close();
        self.slice = Slice::Rows;
        self.keep_lanes(kept);
    }

    /// Appends `statement` for where `condition` holds of a row that has come so far.
    pub(crate) fn note_if(&mut self, condition: &str, statement: &str) {
        match self.is_slice() {
            true => {
                let any = self.name("b");
                self.push(&format!("bool {any}[32]; SLICE {any}[lane] = {condition};"));
                self.push(&format!("if (bits_of_bools({any}) & live) {statement}"));
            }
            false => self.line(format!("if ({condition}) {statement}")),
        }
    }

    /// The index `code` into an array that has an entry 0. In a slice it is 0 where a row is not live.
    pub(crate) fn place(&mut self, c_type: &str, code: &str) -> String {
        match self.is_slice() {
            true => self.define(c_type, "e", format!("live >> lane & 1 ? {code} : 0")),
            false => code.to_owned(),
        }
    }

    /// Closes the innermost scope.
    pub(crate) fn close(&mut self) {
        self.depth -= 1;
        self.push("}");
    }

    /// Open scopes; those to come are of one row.
    pub(crate) fn depth(&mut self) -> usize {
        self.each_row();
        self.depth
    }

    /// Closes scopes until `depth` are left.
    pub(crate) fn close_to(&mut self, depth: usize) {
        while self.depth > depth {
            self.close();
        }
    }

    /// Closes all scopes. Each single row of a slice begins with the lines `row_head`, and `goto next_row` leaves it.
    pub(crate) fn close_all(&mut self, row_head: &[String]) {
        if let Slice::Row { at, depth } = self.slice {
            self.close_to(depth - 1);
            self.push("next_row:;");
            let row_head: String = row_head.iter().map(|line| format!("{line}\n")).collect();
            self.text.insert_str(at, &row_head);
        }
        self.close_to(0);
    }

    /// A name that no other line uses, and no type: `i_32`.
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}_{}", self.names)
    }

    /// Declares a constant of `c_type` and returns its name.
    pub(crate) fn define(&mut self, c_type: &str, prefix: &str, code: impl AsRef<str>) -> String {
        let (name, code) = (self.name(prefix), code.as_ref());
        if self.is_slice() {
            self.push(&format!("{c_type} {name}[32]; SLICE {name}[lane] = {code};"));
            return format!("{name}[lane]");
        }
        self.push(&format!("const {c_type} {name} = {code};"));
        name
    }

    /// Declares an array of a slice that `fill` of its name fills; the name of an entry.
    pub(crate) fn define_slice(
        &mut self,
        c_type: &str,
        prefix: &str,
        fill: impl FnOnce(&str) -> String,
    ) -> String {
        let name = self.name(prefix);
        self.push(&format!("{c_type} {name}[32]; {}", fill(&name)));
        format!("{name}[lane]")
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn push(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }
}
