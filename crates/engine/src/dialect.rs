//! The dialect that statements are parsed in: DataFusion's default, sqlparser's generic one, with two defects mended.
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
//! A dialect may parse operators itself; this one does so for the first two. All else is the generic dialect's: a wrapper
//! has to repeat what that one overrides, for the macro that would do it is a feature that DataFusion does not build.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::Expr;
use datafusion::sql::sqlparser::dialect::{Dialect, GenericDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

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

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        use Keyword::{DISTINCT, FROM, IS, NOT};
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
