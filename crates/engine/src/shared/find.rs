//! Equal subtrees of an optimized plan, and the node that stands for each.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, TableSource, UserDefinedLogicalNodeCore};

use super::exec::Sharing;

/// Nodes of the largest plan that is looked at: each subtree is compared with those that are like it.
const NODES_MAX: usize = 2_000;

/// `plan`, in which one of several equal subtrees is computed for all of them.
pub(super) fn shared(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !may_share(&plan)? {
        return Ok(plan);
    }
    let mut found = Found::default();
    count(&plan, &mut found)?;
    found.counts.retain(|_, count| *count > 1);
    if found.counts.is_empty() {
        return Ok(plan);
    }
    let places = found.counts.into_iter().map(|(subtree, count)| (subtree, Places::of(count)));
    let mut places: HashMap<Subtree, Places> = places.collect();
    replaced(plan, &mut places, &mut HashMap::new())
}

/// Whether there are at least two subtrees that could be equal, in a plan whose every part is run once.
fn may_share(plan: &LogicalPlan) -> Result<bool> {
    let (mut nodes, mut candidates, mut is_run_once) = (0, 0, true);
    plan.apply_with_subqueries(|node| {
        nodes += 1;
        candidates += usize::from(is_candidate(node));
        is_run_once &= !matches!(node, LogicalPlan::RecursiveQuery(_));
        Ok(if nodes <= NODES_MAX { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(candidates > 1 && is_run_once && nodes <= NODES_MAX)
}

/// True for what makes few rows of many, or takes long for each.
fn is_candidate(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Distinct(_) | LogicalPlan::Window(_))
}

/// A subtree, with all that makes it equal to another. Functions that make tables are called by the same name whatever they are
/// given, so scans are told apart by what they read.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Subtree {
    plan: Arc<LogicalPlan>,
    /// Addresses, in the order of the scans.
    sources: Vec<usize>,
}

impl Subtree {
    /// `plan`, if it gives the same rows wherever it is, and reads any.
    fn of(plan: &LogicalPlan) -> Result<Option<Self>> {
        let (mut sources, mut is_same_everywhere) = (Vec::new(), true);
        plan.apply(|node| {
            if let LogicalPlan::TableScan(scan) = node {
                sources.push(address(&scan.source));
            }
            // Of an extension of somebody else nothing is known.
            is_same_everywhere &= !matches!(node, LogicalPlan::Extension(_));
            node.apply_expressions(|expr| {
                let is_bound = |part: &Expr| {
                    let is_of_place = matches!(
                        part,
                        Expr::ScalarSubquery(_)
                            | Expr::Exists(_)
                            | Expr::InSubquery(_)
                            | Expr::SetComparison(_)
                            | Expr::OuterReferenceColumn(..)
                    );
                    Ok(is_of_place || part.is_volatile_node())
                };
                is_same_everywhere &= !expr.exists(is_bound)?;
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(if is_same_everywhere { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
        })?;
        let is_one = is_same_everywhere && !sources.is_empty();
        Ok(is_one.then(|| Self { plan: Arc::new(plan.clone()), sources }))
    }
}

fn address(source: &Arc<dyn TableSource>) -> usize {
    Arc::as_ptr(source).cast::<()>().addr()
}

/// How often there are which subtrees.
#[derive(Default)]
struct Found {
    counts: HashMap<Subtree, usize>,
    /// Those of expressions: DataFusion runs equal ones once.
    subqueries: HashSet<LogicalPlan>,
}

/// Counts subtrees in `plan`; what is below the second of a kind is not there a second time.
fn count(plan: &LogicalPlan, found: &mut Found) -> Result<()> {
    if is_candidate(plan)
        && let Some(subtree) = Subtree::of(plan)?
    {
        let count = found.counts.entry(subtree).or_insert(0);
        *count += 1;
        if *count > 1 {
            return Ok(());
        }
    }
    plan.apply_subqueries(|subquery| {
        if found.subqueries.insert(subquery.clone()) {
            count(subquery, found)?;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    plan.inputs().into_iter().try_for_each(|input| count(input, found))
}

/// Where a subtree is used.
struct Places {
    sharing: Arc<Sharing>,
    /// How many of them have been replaced.
    replaced: usize,
}

impl Places {
    fn of(count: usize) -> Self {
        Self { sharing: Arc::new(Sharing::new(count, false)), replaced: 0 }
    }
}

/// `plan` with a node for each of `places`. A subquery that is there twice stays one.
fn replaced(
    plan: LogicalPlan,
    places: &mut HashMap<Subtree, Places>,
    subqueries: &mut HashMap<LogicalPlan, LogicalPlan>,
) -> Result<LogicalPlan> {
    let subtree = if is_candidate(&plan) { Subtree::of(&plan)? } else { None };
    if let Some(of) = subtree.as_ref().and_then(|subtree| places.get_mut(subtree)) {
        let (sharing, place) = (Arc::clone(&of.sharing), of.replaced);
        of.replaced += 1;
        let input = below(plan, places, subqueries)?;
        return Ok(SharedNode::over(input, sharing, place));
    }
    below(plan, places, subqueries)
}

fn below(
    plan: LogicalPlan,
    places: &mut HashMap<Subtree, Places>,
    subqueries: &mut HashMap<LogicalPlan, LogicalPlan>,
) -> Result<LogicalPlan> {
    let plan = plan.map_subqueries(|subquery| {
        if let Some(known) = subqueries.get(&subquery) {
            return Ok(Transformed::yes(known.clone()));
        }
        let rewritten = replaced(subquery.clone(), places, subqueries)?;
        subqueries.insert(subquery, rewritten.clone());
        Ok(Transformed::yes(rewritten))
    })?;
    let plan = plan.data.map_children(|child| replaced(child, places, subqueries).map(Transformed::yes))?;
    Ok(plan.data)
}

/// `plan` at as many places as it is used. No device looks through the first, which alone has it.
pub(crate) fn at_places(plan: LogicalPlan, count: usize) -> Vec<LogicalPlan> {
    if count == 1 {
        return vec![plan];
    }
    let (sharing, schema) = (Arc::new(Sharing::new(count, true)), Arc::clone(plan.schema()));
    let mut places = vec![SharedNode::over(plan, Arc::clone(&sharing), 0)];
    places.extend((1..count).map(|place| {
        let (sharing, schema) = (Arc::clone(&sharing), Arc::clone(&schema));
        LogicalPlan::Extension(Extension {
            node: Arc::new(SharedNode { sharing, place, schema, input: None }),
        })
    }));
    places
}

/// One of the places of a subtree.
#[derive(Clone)]
pub(super) struct SharedNode {
    pub(super) sharing: Arc<Sharing>,
    pub(super) place: usize,
    pub(super) schema: DFSchemaRef,
    input: Option<LogicalPlan>,
}

impl SharedNode {
    fn over(input: LogicalPlan, sharing: Arc<Sharing>, place: usize) -> LogicalPlan {
        let schema = Arc::clone(input.schema());
        LogicalPlan::Extension(Extension {
            node: Arc::new(Self { sharing, place, schema, input: Some(input) }),
        })
    }

    fn identity(&self) -> (usize, usize) {
        (Arc::as_ptr(&self.sharing).addr(), self.place)
    }
}

impl fmt::Debug for SharedNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        UserDefinedLogicalNodeCore::fmt_for_explain(self, f)
    }
}

impl PartialEq for SharedNode {
    fn eq(&self, other: &Self) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for SharedNode {}

impl Hash for SharedNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl PartialOrd for SharedNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.identity().partial_cmp(&other.identity())
    }
}

impl UserDefinedLogicalNodeCore for SharedNode {
    fn name(&self) -> &str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        self.input.iter().collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: place {}", self.place)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        Ok(Self { input: inputs.pop(), ..self.clone() })
    }
}
