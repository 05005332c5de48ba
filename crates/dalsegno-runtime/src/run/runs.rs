//! The engine, as the runs that it performs see it.

use async_trait::async_trait;
use dalsegno_core::{
    AgentCall, FailureCode, Handoff, OperationId, Outcome, RunId, ToolCall, ToolName, Usage,
};
use dalsegno_store::Message;
use dalsegno_tools::Finished;

use crate::effects::failure::{AttemptError, certain};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::run::context::{DocumentCall, GivenUp, OfCall, Prepared, RunContext, Runs, Within};
use crate::run::engine_tools::EngineTool;
use crate::run::handle::RunHandle;
use crate::trial::Behalf;

#[async_trait]
impl Runs for Engine {
    async fn start_child(
        &self,
        context: &RunContext,
        operation: OperationId,
        call: &AgentCall,
        within: &Within,
    ) -> Result<RunHandle, EngineError> {
        Self::start_child(self, context, operation, call, within).await
    }

    async fn give_up_child(&self, child: RunId, by: Option<String>, reason: Option<String>) -> GivenUp {
        Self::give_up_child(self, child, by, reason).await
    }

    async fn pass_word(&self, child: RunId, word: &Message) {
        Self::pass_word(self, child, word).await;
    }

    async fn end_below(&self, run: RunId) {
        Self::end_below(self, run).await;
    }

    async fn prepare_successor(
        &self,
        context: &RunContext,
        handoff: &Handoff,
        used: &Usage,
    ) -> Result<Prepared, EngineError> {
        Self::prepare_successor(self, context, handoff, used).await
    }

    fn offers(&self, tool: &ToolName) -> bool {
        EngineTool::of(tool, self).is_some()
    }

    async fn call_tool(
        &self,
        context: &RunContext,
        call: &ToolCall,
        of_call: Option<OfCall<'_>>,
    ) -> Result<Outcome, AttemptError> {
        match EngineTool::of(&call.tool_name, self) {
            Some(tool) => self.engine_tool(tool, context, call, of_call).await,
            None => Err(certain(FailureCode::Internal, format!("`{}` is not the engine's", call.tool_name))),
        }
    }

    async fn call_document(&self, context: &RunContext, call: DocumentCall<'_>) -> Result<Finished, String> {
        let DocumentCall { asker, tool, arguments, config, operation } = call;
        let behalf = Behalf { tenant: &context.tenant, asker, config: Some(config) };
        let called = Self::call_document(self, tool, arguments, &behalf, operation).await;
        Ok(called.map_err(|error| error.to_string())?.finished)
    }
}
