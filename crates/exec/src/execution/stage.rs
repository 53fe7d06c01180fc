//! The pipelines of a stage: at once, or one after the other with kernels compiled ahead.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use pelton_device::Turn;
use pelton_error::Result;
use pelton_pipeline::Rows;
use pelton_pipeline::ir::{Sink, Source};

use super::Execution;
use crate::MemoryTest;
use crate::memory::{HeldLanes, is_out_of_memory};
use crate::parking::Refusals;
use crate::report::PipelineReport;
use crate::tasks::in_threads;
use crate::trace::RunTrace;

impl<'r> Execution<'r> {
    /// Runs the pipelines of a stage; gives the rows of the one that ends in any. Those of the oldest query run at once:
    /// most of the time of a small pipeline is spent waiting for the device, in which the others go on. A younger query
    /// has others beside it, and one pipeline can be parked as a whole.
    pub(crate) fn stage(&mut self, indexes: &[usize]) -> Result<Option<Rows>> {
        let is_test = self.runtime.options.memory_test == MemoryTest::RefuseOnce;
        let is_alone = indexes.len() <= 1 || is_test || !self.turn.is_oldest();
        // They are taken before parts have turns of their own, which nobody would take yet.
        let lanes = match is_alone {
            true => None,
            false => self.lanes_of_parts(indexes.len())?,
        };
        let Some(lanes) = lanes else {
            if self.cancel.is_in_background() && indexes.len() > 1 && !self.worker.is_host() {
                self.compile_ahead(indexes);
            }
            let mut rows = None;
            for index in indexes {
                rows = self.pipeline(*index)?.or(rows);
            }
            return Ok(rows);
        };
        let outcomes = self.at_once(indexes, lanes);
        self.turn.resume();
        let mut rows = None;
        let mut again = Vec::new();
        for (index, execution, outcome) in outcomes {
            let gives_rows = matches!(self.plan.pipelines[index].sink, Sink::Materialize { .. });
            match &outcome {
                Err(refusal) if is_out_of_memory(refusal) && !gives_rows => again.push(index),
                _ => rows = self.take_in(index, execution, outcome)?.or(rows),
            }
        }
        // What found no room beside others may find it once they are done.
        for index in again {
            rows = self.pipeline(index)?.or(rows);
        }
        Ok(rows)
    }

    /// Compiles the kernels of these pipelines at once, for one after the other to find them: compilers are most of a trial.
    /// What cannot be done yet is left to each of them, and so is what is wrong.
    fn compile_ahead(&mut self, indexes: &[usize]) {
        let mut kernels = Vec::with_capacity(indexes.len());
        for &index in indexes {
            let pipeline = &self.plan.pipelines[index];
            let mut report = PipelineReport { name: pipeline.name.clone(), ..PipelineReport::default() };
            let is_ready = match &pipeline.source {
                _ if self.spilled_probe(pipeline, 0).is_some() => false,
                Source::Table(scan) => self.admit(scan, &mut report).is_ok(),
                Source::Groups(_) => true,
                Source::HostInput(_) => false,
            };
            if !is_ready {
                continue;
            }
            let started = Instant::now();
            let is_hashed = self.has_repeating_keys(pipeline);
            let kind = self.kind(pipeline, is_hashed);
            let generated = self.prepare(pipeline).and_then(|prepared| {
                let described = self.described(pipeline, &prepared);
                let pipeline = described.as_ref().unwrap_or(pipeline);
                self.shared[index].generated(kind, || self.generate((index, pipeline), &prepared, is_hashed))
            });
            report.generate += started.elapsed();
            kernels.push((index, generated.ok(), report));
        }
        let (runtime, worker, cancel) = (self.runtime, self.worker, self.cancel);
        in_threads(&mut kernels, |(_, generated, report)| {
            let compile = |generated| runtime.compile(worker, generated, cancel);
            if let Some(Ok((_, compiled))) = generated.as_deref().map(compile) {
                report.add_compile(&compiled);
            }
        });
        self.begun.extend(kernels.into_iter().map(|(index, _, report)| (index, report)));
    }

    /// A lane for each of so many parts; `None` where not even those fit.
    fn lanes_of_parts(&self, count: usize) -> Result<Option<Vec<HeldLanes<'r>>>> {
        let lanes =
            (0..count).map(|_| self.worker.first_lane(&self.runtime.machine, &self.turn, self.cancel));
        match lanes.collect() {
            Err(refusal) if is_out_of_memory(&refusal) => Ok(None),
            lanes => lanes.map(Some),
        }
    }

    /// Runs these pipelines at once, each apart.
    fn at_once(
        &self,
        indexes: &[usize],
        lanes: Vec<HeldLanes<'r>>,
    ) -> Vec<(usize, Self, Result<Option<Rows>>)> {
        let turns = self.turn.split(indexes.len() as u32).into_iter().zip(lanes);
        let apart = indexes.iter().zip(turns).map(|(index, (turn, lane))| (*index, self.apart(turn, lane)));
        let mut apart: Vec<(usize, Self)> = apart.collect();
        let outcomes = in_threads(&mut apart, |(index, execution)| {
            let outcome = execution.pipeline(*index);
            execution.turn.end();
            outcome
        });
        let outcomes = apart.into_iter().zip(outcomes);
        outcomes.map(|((index, execution), outcome)| (index, execution, outcome)).collect()
    }

    /// An execution for one pipeline alone, over the tables built so far.
    fn apart(&self, turn: Turn, lane: HeldLanes<'r>) -> Self {
        Self {
            runtime: self.runtime,
            worker: self.worker,
            plan: self.plan,
            shared: Arc::clone(&self.shared),
            cancel: self.cancel,
            rows_taker: self.rows_taker,
            host_bytes_max: self.host_bytes_max,
            wanted_groups: self.wanted_groups,
            texts: self.texts,
            host_inputs: self.host_inputs.clone(),
            parameters: Arc::clone(&self.parameters),
            built: self.built.clone(),
            groups: self.groups.clone(),
            spilled: self.spilled.clone(),
            resting: Vec::new(),
            sorted_runs: Vec::new(),
            tables: self.tables.clone(),
            lane,
            reports: Vec::new(),
            trace: self.trace.as_ref().map(RunTrace::fork),
            begun: HashMap::new(),
            is_apart: true,
            refusals: Refusals::default(),
            turn,
        }
    }

    /// Takes over what pipeline `index`, run apart, has left.
    fn take_in(&mut self, index: usize, apart: Self, outcome: Result<Option<Rows>>) -> Result<Option<Rows>> {
        let Self { tables, mut built, mut groups, mut spilled, sorted_runs, lane, reports, turn, .. } = apart;
        drop(turn);
        // What comes next runs on other streams.
        lane.wait_blocking()?;
        let rows = outcome?;
        if let Sink::Build { table, .. } = &self.plan.pipelines[index].sink {
            self.tables.adopt(&tables, |arg| arg.is_of_table(*table));
            self.built[*table] = built[*table].take();
            self.spilled.extend(spilled.remove(table).map(|spilled| (*table, spilled)));
        }
        self.groups.extend(groups.remove(&index).map(|held| (index, held)));
        self.sorted_runs.extend(sorted_runs);
        self.reports.extend(reports);
        Ok(rows)
    }
}
