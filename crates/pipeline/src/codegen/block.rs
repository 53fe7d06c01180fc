//! Text of generated code: lines, indentation, fresh names.

/// A piece of generated code.
#[derive(Debug, Default)]
pub(crate) struct Block {
    text: String,
    depth: usize,
    names: usize,
}

impl Block {
    /// Appends a line.
    pub(crate) fn line(&mut self, line: impl AsRef<str>) {
        for _ in 0..self.depth {
            self.text.push_str("  ");
        }
        self.text.push_str(line.as_ref());
        self.text.push('\n');
    }

    /// Appends a line that opens a scope.
    pub(crate) fn open(&mut self, line: impl AsRef<str>) {
        self.line(line);
        self.depth += 1;
    }

    /// Closes the innermost scope.
    pub(crate) fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    /// Open scopes.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Closes scopes until `depth` are left.
    pub(crate) fn close_to(&mut self, depth: usize) {
        while self.depth > depth {
            self.close();
        }
    }

    /// A name that no other line uses, and no type: `i_32`.
    pub(crate) fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}_{}", self.names)
    }

    /// Declares a constant of `c_type` and returns its name.
    pub(crate) fn define(&mut self, c_type: &str, prefix: &str, code: impl AsRef<str>) -> String {
        let name = self.name(prefix);
        self.line(format!("const {c_type} {name} = {};", code.as_ref()));
        name
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }
}
