//! What operators count on in the operators below them, held when some of those move to a device.
//!
//! ```text
//!   from a child    its requirements: rows partitioned by keys, in one partition, in an order
//!   to a parent     schema with nullability and metadata; the order; where the parent counts on it, the partitions
//! ```
//!
//! Rules before this one planned sorts and repartitions for these properties and none comes after it, so what holds in
//! the plan has to hold after the rewrite. A requirement that the plan did not satisfy by its properties is not held
//! against the rewrite either.

use std::sync::Arc;

use datafusion::physical_plan::{Distribution, ExecutionPlan, ExecutionPlanProperties, Partitioning};

/// What `plan` requires and promises.
pub(super) struct Contract<'a> {
    plan: &'a Arc<dyn ExecutionPlan>,
    /// A parent counts on how the rows are partitioned.
    by_hash: bool,
}

impl<'a> Contract<'a> {
    pub(super) fn of(plan: &'a Arc<dyn ExecutionPlan>, by_hash: bool) -> Self {
        Self { plan, by_hash }
    }

    /// Whether `children` satisfy what the plan requires of its children, as far as those that it has do.
    pub(super) fn holds_over(&self, children: &[Arc<dyn ExecutionPlan>]) -> bool {
        let requirements = self.plan.input_distribution_requirements();
        let orders = self.plan.required_input_ordering();
        self.plan.children().into_iter().zip(children).enumerate().all(|(index, (before, after))| {
            let is_ordered = |child: &Arc<dyn ExecutionPlan>| match orders.get(index) {
                Some(Some(order)) => {
                    let order = order.clone().into_single();
                    child.equivalence_properties().ordering_satisfy_requirement(order).unwrap_or(false)
                }
                _ => true,
            };
            let is_distributed = |child: &Arc<dyn ExecutionPlan>| {
                requirements.child_distribution(index).is_none_or(|wanted| is_distributed(child, wanted))
            };
            // Joins pair partitions by number: as many as there were, unless one is required anyway.
            let is_paired = orders.len() < 2
                || match requirements.child_distribution(index) {
                    Some(Distribution::KeyPartitioned(_)) => {
                        partition_count(before) == partition_count(after)
                    }
                    _ => true,
                };
            before.schema() == after.schema()
                && is_paired
                && (is_ordered(after) || !is_ordered(before))
                && (is_distributed(after) || !is_distributed(before))
        })
    }

    /// Whether `rewritten` promises its parents what the plan did.
    pub(super) fn is_kept_by(&self, rewritten: &Arc<dyn ExecutionPlan>) -> bool {
        let order_is_kept = match self.plan.output_ordering() {
            Some(order) => {
                rewritten.equivalence_properties().ordering_satisfy(order.clone()).unwrap_or(false)
            }
            None => true,
        };
        let (before, after) = (self.plan.output_partitioning(), rewritten.output_partitioning());
        let partitions_are_kept = match before {
            Partitioning::Hash(_, count) | Partitioning::UnknownPartitioning(count) if *count == 1 => {
                after.partition_count() == 1
            }
            Partitioning::Hash(..) | Partitioning::Range(_) if self.by_hash => before == after,
            _ => true,
        };
        self.plan.schema() == rewritten.schema() && order_is_kept && partitions_are_kept
    }
}

fn partition_count(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.output_partitioning().partition_count()
}

fn is_distributed(child: &Arc<dyn ExecutionPlan>, wanted: &Distribution) -> bool {
    child.output_partitioning().satisfaction(wanted, child.equivalence_properties(), true).is_satisfied()
}
