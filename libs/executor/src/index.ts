/** One attempt: pick a backend, run under deadlines, bound and redact output. */
export type { Attempt, ExecutorLog, ExecutorTimings, LeakedSandbox, WorkspaceTurn } from './attempt.ts'
export type { CircuitOptions, CircuitState } from './circuit-breaker.ts'
export { systemClock, type Clock } from './clock.ts'
export {
  createExecutor,
  type BackendReport,
  type Executor,
  type ExecutorDeps,
  type RunningAttempt,
} from './create-executor.ts'
export { createMemoryBudget, type MemoryBudget, type MemoryLease } from './memory-budget.ts'
export { compileRules, type RedactionRules } from './redaction-rules.ts'
export { createRedactor, redactText, type Redactor } from './redactor.ts'
export { ATTRIBUTE, EVENT, SPAN } from './spans.ts'
export type { Checkpoint } from './checkpoint.ts'
