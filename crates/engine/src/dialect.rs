//! The dialect that statements are parsed in: DataFusion's default, sqlparser's generic one, with four defects mended.
//!
//! sqlparser 0.62 parses what follows `IS [NOT] DISTINCT FROM` as a whole expression, so it takes AND and OR into its
//! right side. In SQL the right side ends where an operator binds no tighter than IS:
//!
//! ```text
//!   a IS DISTINCT FROM b AND c       (a IS DISTINCT FROM b) AND c         not  a IS DISTINCT FROM (b AND c)
//!   a IS DISTINCT FROM b = c         a IS DISTINCT FROM (b = c)
//! ```
//!
//! And sqlparser has comparisons beside IN and BETWEEN and above LIKE, where SQL has them below all three:
//!
//! ```text
//!   a = b LIKE c                     a = (b LIKE c)                        not  (a = b) LIKE c
//!   a LIKE b = c                     (a LIKE b) = c                        not  a LIKE (b = c)
//! ```
//!
//! And it does not know BETWEEN SYMMETRIC, whose bounds may stand in either order; nor ASYMMETRIC, which says that they
//! may not. As in PostgreSQL, no column is called so without quotes after BETWEEN:
//!
//! ```text
//!   a BETWEEN SYMMETRIC b AND c      (a BETWEEN b AND c OR a BETWEEN c AND b)
//! ```
//!
//! And `^` is bits of either side to it, where PostgreSQL and DuckDB have powers, which bind tighter than a product and less tight
//! than a sign. (Bits of either side are `a XOR b`.) The operators `~`, `|/` and `||/` go before what is added and multiplied:
//!
//! ```text
//!   2 * 3 ^ 2 ^ 2                    2 * ((3 ^ 2) ^ 2)
//!   -2 ^ 2                           (-2) ^ 2
//!   ~1 + 1                           ~(1 + 1)                              not  (~1) + 1
//! ```
//!
//! A dialect may parse operators itself; this one does so for IS DISTINCT FROM and these. All else is the generic
//! dialect's: a wrapper has to repeat what that one overrides, for the macro that would do it is a feature that DataFusion
//! does not build.

use std::any::TypeId;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value, Visit, Visitor};
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

/// Expressions in what BETWEEN SYMMETRIC writes twice: each level of them in another doubles what is inside.
const COPIED_MAX: usize = 10_000;

/// How tight `^` binds: sqlparser has no number left between products and AT TIME ZONE.
const POWER: Precedence = Precedence::AtTz;

/// The dialect of Pelton's sessions.
#[derive(Debug)]
pub(crate) struct PeltonDialect;

/// What the generic dialect answers with true and a dialect by itself with false.
macro_rules! as_generic {
    ($($question:ident)*) => {
        $(
            fn $question(&self) -> bool {
                GenericDialect.$question()
            }
        )*
    };
}

impl Dialect for PeltonDialect {
    fn dialect(&self) -> TypeId {
        TypeId::of::<GenericDialect>()
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        GenericDialect.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        GenericDialect.is_identifier_part(ch)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        match precedence {
            Precedence::Eq => {
                let (below, above) = (self.prec_value(Precedence::Is), self.prec_value(Precedence::Like));
                assert!(below + 1 < above, "sqlparser left room for comparisons below LIKE");
                below + 1
            }
            other => GenericDialect.prec_value(other),
        }
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        (parser.peek_token_ref().token == Token::Caret).then(|| Ok(self.prec_value(POWER)))
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        // What follows belongs to it where that binds tighter.
        let (op, precedence) = match parser.peek_token_ref().token {
            Token::Minus => (UnaryOperator::Minus, POWER),
            Token::Plus => (UnaryOperator::Plus, POWER),
            Token::Tilde => (UnaryOperator::BitwiseNot, Precedence::Xor),
            Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, Precedence::Xor),
            Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, Precedence::Xor),
            _ => return None,
        };
        parser.advance_token();
        let operand = parser.parse_subexpr(self.prec_value(precedence));
        Some(operand.map(|operand| Expr::UnaryOp { op, expr: Box::new(operand) }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
        if parser.consume_token(&Token::Caret) {
            let exponent = parser.parse_subexpr(precedence);
            return Some(exponent.map(|exponent| Expr::BinaryOp {
                left: Box::new(expr.clone()),
                op: BinaryOperator::PGExp,
                right: Box::new(exponent),
            }));
        }
        if let Some(between) = parse_between(parser, expr) {
            return Some(between);
        }
        let is_distinct = parser.parse_keywords(&[IS, DISTINCT, FROM]);
        if !is_distinct && !parser.parse_keywords(&[IS, NOT, DISTINCT, FROM]) {
            return None;
        }
        let sides = parser.parse_subexpr(precedence).map(|right| (Box::new(expr.clone()), Box::new(right)));
        Some(sides.map(|(left, right)| match is_distinct {
            true => Expr::IsDistinctFrom(left, right),
            false => Expr::IsNotDistinctFrom(left, right),
        }))
    }

    as_generic! {
        supports_unicode_string_literal supports_partition_by_after_order_by supports_array_join_syntax
        supports_group_by_expr supports_group_by_with_modifier supports_left_associative_joins_without_parens
        supports_connect_by supports_match_recognize supports_pipe_operator supports_start_transaction_modifier
        supports_window_function_null_treatment_arg supports_dictionary_syntax
        supports_window_clause_named_window_reference supports_parenthesized_set_variables
        supports_select_wildcard_except support_map_literal_syntax allow_extract_custom allow_extract_single_quotes
        supports_extract_comma_syntax supports_create_view_comment_syntax supports_parens_around_table_factor
        supports_values_as_table_factor supports_create_index_with_clause supports_explain_with_utility_options
        supports_limit_comma supports_update_order_by supports_from_first_select
        supports_projection_trailing_commas supports_asc_desc_in_column_definition supports_try_convert
        supports_bitwise_shift_operators supports_comment_on supports_load_extension
        supports_named_fn_args_with_assignment_operator supports_struct_literal supports_empty_projections
        supports_nested_comments supports_multiline_comment_hints supports_user_host_grantee
        supports_string_escape_constant supports_array_typedef_with_brackets supports_match_against
        supports_set_names supports_comma_separated_set_assignments supports_filter_during_aggregation
        supports_select_wildcard_exclude supports_data_type_signed_suffix supports_interval_options
        supports_quote_delimited_string supports_select_wildcard_replace supports_select_wildcard_ilike
        supports_select_wildcard_rename supports_optimize_table supports_install supports_detach supports_prewhere
        supports_with_fill supports_limit_by supports_interpolate supports_settings supports_select_format
        supports_comment_optimizer_hint supports_constraint_keyword_without_name supports_key_column_option
        supports_comma_separated_trim supports_cte_without_as supports_select_item_multi_column_alias
        supports_xml_expressions
    }
}

/// `expr` [NOT] BETWEEN SYMMETRIC or ASYMMETRIC, where that follows.
fn parse_between(parser: &mut Parser, expr: &Expr) -> Option<Result<Expr, ParserError>> {
    use Keyword::{ASYMMETRIC, BETWEEN, NOT, SYMMETRIC};
    let mut follows = |kind| {
        let negated = !parser.parse_keywords(&[BETWEEN, kind]);
        (!negated || parser.parse_keywords(&[NOT, BETWEEN, kind])).then_some((kind, negated))
    };
    let (kind, negated) = follows(SYMMETRIC).or_else(|| follows(ASYMMETRIC))?;
    let between = parser.parse_between(expr.clone(), negated);
    Some(if kind == SYMMETRIC { between.and_then(in_either_order) } else { between })
}

/// `between` with its bounds as they are and the other way round.
fn in_either_order(between: Expr) -> Result<Expr, ParserError> {
    let mut swapped = between.clone();
    let Expr::Between { low, high, negated, .. } = &mut swapped else { return Ok(between) };
    std::mem::swap(low, high);
    let op = if *negated { BinaryOperator::And } else { BinaryOperator::Or };
    let both = Expr::BinaryOp { left: Box::new(between), op, right: Box::new(swapped) };
    match both.visit(&mut Copied(0)) {
        ControlFlow::Continue(()) => Ok(Expr::Nested(Box::new(both))),
        ControlFlow::Break(message) => Err(ParserError::ParserError(message)),
    }
}

/// Looks for what cannot be written twice; holds the number of expressions that were met.
struct Copied(usize);

impl Visitor for Copied {
    type Break = String;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<String> {
        self.0 += 1;
        if self.0 > COPIED_MAX {
            return ControlFlow::Break(format!(
                "more than {COPIED_MAX} expressions in BETWEEN SYMMETRIC; name its operands in a subquery in FROM"
            ));
        }
        match expr {
            Expr::Value(value) if matches!(&value.value, Value::Placeholder(name) if name == "?") => {
                ControlFlow::Break("BETWEEN SYMMETRIC has a parameter ?; number it, as $1".to_owned())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParserBuilder;

    use super::*;

    fn parsed(text: &str, dialect: &dyn Dialect) -> Expr {
        let parser = DFParserBuilder::new(text).with_dialect(dialect).build();
        parser
            .and_then(|mut parser| parser.parse_expr())
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .expr
    }

    /// The tree with all parentheses and none of those that were written.
    fn drawn(expr: &Expr) -> String {
        match expr {
            Expr::Nested(inner) => drawn(inner),
            Expr::BinaryOp { left, op, right } => format!("({} {op} {})", drawn(left), drawn(right)),
            Expr::UnaryOp { op, expr } => format!("({op} {})", drawn(expr)),
            Expr::IsDistinctFrom(left, right) => format!("({} differs from {})", drawn(left), drawn(right)),
            Expr::IsNotDistinctFrom(left, right) => format!("({} is {})", drawn(left), drawn(right)),
            Expr::IsNull(expr) => format!("({} is null)", drawn(expr)),
            Expr::Between { expr, high, .. } => format!("({} up to {})", drawn(expr), drawn(high)),
            Expr::InList { expr, .. } => format!("({} in)", drawn(expr)),
            Expr::Case { conditions, .. } => drawn(&conditions[0].condition),
            leaf => leaf.to_string(),
        }
    }

    #[test]
    fn comparisons_bind_less_than_like_in_and_between() {
        for (text, meant) in [
            ("a = b LIKE c", "a = (b LIKE c)"),
            ("a LIKE b = c", "(a LIKE b) = c"),
            ("a < b NOT ILIKE c AND d", "(a < (b NOT ILIKE c)) AND d"),
            ("a <> b IN (1, 2)", "a <> (b IN (1, 2))"),
            ("a IN (1, 2) = b", "(a IN (1, 2)) = b"),
            ("a >= b BETWEEN 1 AND 2 AND c", "(a >= (b BETWEEN 1 AND 2)) AND c"),
            ("a BETWEEN 1 AND 2 = b", "(a BETWEEN 1 AND 2) = b"),
            ("NOT a = b LIKE c", "NOT (a = (b LIKE c))"),
            ("a = b IS NULL", "(a = b) IS NULL"),
            ("a = b || c", "a = (b || c)"),
        ] {
            assert_eq!(drawn(&parsed(text, &PeltonDialect)), drawn(&parsed(meant, &PeltonDialect)), "{text}");
        }
    }

    #[test]
    fn powers_bind_more_than_products_and_less_than_signs() {
        for (text, meant) in [
            ("a ^ b ^ c", "(a ^ b) ^ c"),
            ("a * b ^ c * d", "(a * (b ^ c)) * d"),
            ("-a ^ b", "(-a) ^ b"),
            ("a ^ -b ^ c", "(a ^ (-b)) ^ c"),
            ("a ^ b::INT + c", "(a ^ (b::INT)) + c"),
            ("-a * b - -c", "((-a) * b) - (-c)"),
            ("- -a::INT", "-(-(a::INT))"),
            ("~a + b & c", "(~(a + b)) & c"),
            ("|/ a * b = c", "(|/ (a * b)) = c"),
            ("||/ ~a", "||/ (~a)"),
        ] {
            assert_eq!(drawn(&parsed(text, &PeltonDialect)), drawn(&parsed(meant, &PeltonDialect)), "{text}");
        }
        let Expr::BinaryOp { op, .. } = parsed("2 ^ 3", &PeltonDialect) else { panic!("an operator") };
        assert_eq!(op, BinaryOperator::PGExp);
        let Expr::BinaryOp { op, .. } = parsed("2 XOR 3", &PeltonDialect) else { panic!("an operator") };
        assert_eq!(op, BinaryOperator::Xor);
    }

    #[test]
    fn distinct_from_ends_where_operators_bind_less() {
        for (text, meant) in [
            ("a IS DISTINCT FROM b AND c", "(a IS DISTINCT FROM b) AND c"),
            ("a IS NOT DISTINCT FROM b OR c AND d", "(a IS NOT DISTINCT FROM b) OR (c AND d)"),
            ("x AND a IS DISTINCT FROM b AND c OR d", "(x AND (a IS DISTINCT FROM b) AND c) OR d"),
            ("NOT a IS DISTINCT FROM b AND c", "(NOT (a IS DISTINCT FROM b)) AND c"),
            ("a IS DISTINCT FROM NOT b AND c", "(a IS DISTINCT FROM (NOT b)) AND c"),
            ("a IS DISTINCT FROM b = c AND d", "(a IS DISTINCT FROM (b = c)) AND d"),
            ("a + 1 IS DISTINCT FROM b * 2 OR c", "((a + 1) IS DISTINCT FROM (b * 2)) OR c"),
            ("a IS DISTINCT FROM b IS NULL", "(a IS DISTINCT FROM b) IS NULL"),
            ("a IS DISTINCT FROM b BETWEEN 1 AND 2 AND c", "(a IS DISTINCT FROM (b BETWEEN 1 AND 2)) AND c"),
            ("a IS DISTINCT FROM b IN (1, 2) AND c", "(a IS DISTINCT FROM (b IN (1, 2))) AND c"),
            (
                "a IS DISTINCT FROM b AND c IS DISTINCT FROM d OR e",
                "((a IS DISTINCT FROM b) AND (c IS DISTINCT FROM d)) OR e",
            ),
            ("a IS DISTINCT FROM (b AND c)", "a IS DISTINCT FROM (b AND c)"),
            (
                "CASE WHEN a IS DISTINCT FROM b AND c THEN 1 END",
                "CASE WHEN (a IS DISTINCT FROM b) AND c THEN 1 END",
            ),
        ] {
            assert_eq!(drawn(&parsed(text, &PeltonDialect)), drawn(&parsed(meant, &PeltonDialect)), "{text}");
        }
    }

    #[test]
    fn bounds_of_between_symmetric_stand_in_either_order() {
        for (text, meant) in [
            ("a BETWEEN SYMMETRIC b AND c", "a BETWEEN b AND c OR a BETWEEN c AND b"),
            ("a NOT BETWEEN SYMMETRIC b AND c", "a NOT BETWEEN b AND c AND a NOT BETWEEN c AND b"),
            ("a BETWEEN ASYMMETRIC b AND c AND d", "(a BETWEEN b AND c) AND d"),
            (
                "x OR a + 1 BETWEEN SYMMETRIC b AND c * 2 AND d",
                "x OR ((a + 1 BETWEEN b AND c * 2 OR a + 1 BETWEEN c * 2 AND b) AND d)",
            ),
            ("a BETWEEN SYMMETRIC b AND c = d", "(a BETWEEN b AND c OR a BETWEEN c AND b) = d"),
            ("NOT a BETWEEN SYMMETRIC b AND c", "NOT (a BETWEEN b AND c OR a BETWEEN c AND b)"),
            ("a BETWEEN \"symmetric\" AND c", "a BETWEEN (\"symmetric\") AND c"),
        ] {
            let text_of = |text: &str| parsed(text, &PeltonDialect).to_string().replace(['(', ')'], "");
            assert_eq!(drawn(&parsed(text, &PeltonDialect)), drawn(&parsed(meant, &PeltonDialect)), "{text}");
            assert_eq!(text_of(text), text_of(meant), "{text}");
        }
    }

    #[test]
    fn between_symmetric_refuses_what_it_cannot_write_twice() {
        let error = |text: &str| {
            let parser = DFParserBuilder::new(text).with_dialect(&PeltonDialect).build();
            let parsed = parser.and_then(|mut parser| parser.parse_expr());
            parsed.map_or_else(|error| error.to_string(), |_| String::new())
        };
        let nested = |levels| {
            (0..levels).fold("a".to_owned(), |inner, _| format!("({inner} BETWEEN SYMMETRIC b AND c)"))
        };
        assert_eq!(error(&nested(5)), "");
        assert!(error(&nested(14)).contains("more than 10000 expressions"), "{}", error(&nested(14)));
        assert_eq!(error("a BETWEEN SYMMETRIC $1 AND $2"), "");
        let marks = error("a BETWEEN SYMMETRIC ? AND ?");
        assert!(marks.contains("number it"), "{marks}");
    }

    #[test]
    fn all_else_is_the_generic_dialect() {
        for text in [
            "a IS NULL AND b IS NOT TRUE",
            "`a` = \"b\" OR #c",
            "x BETWEEN 1 AND 2 AND y",
            "MAP {'a': 1}",
            "STRUCT(1 AS a)",
            "f(a => 1, b := 2)",
            "EXTRACT('year', d)",
            "E'\\n' || U&'x'",
            "count(*) FILTER (WHERE a)",
            "a << 2",
            "/* a /* b */ c */ 1",
            "CASE a WHEN 1 THEN 2 END",
        ] {
            let ours = format!("{:?}", parsed(text, &PeltonDialect));
            assert_eq!(ours, format!("{:?}", parsed(text, &GenericDialect)), "{text}");
        }
    }
}
