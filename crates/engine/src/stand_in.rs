//! Operators that stand for one of DataFusion's, which they keep: what a plan asks of them, that one answers.

/// Within `impl ExecutionPlan`: what asks for the operator in the field `$of`, and metrics from the field `metrics`.
macro_rules! answers_of {
    ($of:ident) => {
        fn input_distribution_requirements(
            &self,
        ) -> datafusion::physical_plan::InputDistributionRequirements {
            self.$of.input_distribution_requirements()
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            self.$of.children()
        }

        fn apply_expressions(
            &self,
            f: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            )
                -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            self.$of.apply_expressions(f)
        }

        fn metrics(&self) -> Option<datafusion::physical_plan::metrics::MetricsSet> {
            Some(self.metrics.clone_inner())
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[std::sync::Arc<datafusion::common::Statistics>],
            args: &datafusion::physical_plan::StatisticsArgs,
        ) -> datafusion::error::Result<std::sync::Arc<datafusion::common::Statistics>> {
            self.$of.statistics_from_inputs(inputs, args)
        }

        fn child_stats_requests(
            &self,
            partition: Option<usize>,
        ) -> Vec<datafusion::physical_plan::ChildStats> {
            self.$of.child_stats_requests(partition)
        }

        fn cardinality_effect(&self) -> datafusion::physical_plan::execution_plan::CardinalityEffect {
            self.$of.cardinality_effect()
        }
    };
}

pub(crate) use answers_of;
