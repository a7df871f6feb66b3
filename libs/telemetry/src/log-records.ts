/**
 * Every log message of our processes, and what it means to an operator. The message is a stable name that
 * alerts may match. tests/architecture compares this table with the calls in the source, in both directions.
 */
import { API_LOG_FACTS } from './api-log-records.ts'
import { BACKEND_LOG_FACTS } from './backend-log-records.ts'
import { DISPATCHER_LOG_FACTS } from './dispatcher-log-records.ts'
import type { LogFacts } from './log-facts.ts'

/** The keys are the messages. `…` in a key stands for the variable part. */
export const LOG_FACTS: Readonly<Record<string, LogFacts>> = {
  'an interpreter was provisioned': {
    level: 'info',
    from: 'worker',
    about: 'A tenant has a code interpreter of its own at AgentCore now; `interpreter_id` names it.',
  },
  'an interpreter is not as it should be': {
    level: 'warn',
    from: 'worker',
    about:
      'AgentCore or IAM refused; `detail` says what. Executions of the tenant end `provisioning` there ' +
      'until a later round succeeds (libs/backends/agentcore/OPERATIONS.md).',
  },
  'deleted an interpreter that no row names': {
    level: 'warn',
    from: 'worker',
    about: 'Garbage at AgentCore: of a deleted tenant, or of a database that was restored. Nothing to do.',
  },
  'taking executions': {
    level: 'info',
    from: 'worker',
    about: 'The worker has started. `backends` says which backends work here.',
  },
  'takes nothing until its store is good': {
    level: 'warn',
    from: 'worker',
    about:
      'The database refuses this worker, has an older schema or takes no writes, or the blob folder ' +
      'cannot be written: `reason` says which, and what to do. It asks again every second.',
  },
  'background work failed': {
    level: 'error',
    from: 'worker',
    about:
      'Lease renewal, probes, janitor or retention failed once; each is repeated. If there are many of ' +
      'these records, look at Redis and Postgres.',
  },
  'a program is not kept, because there is no key to encrypt it': {
    level: 'warn',
    from: 'worker',
    about:
      'Policy keeps programs, but also wants outputs encrypted or redacted. Set COFFERDAM_OUTPUT_KEYS; ' +
      'until then these executions cannot be run again.',
  },
  'a program could not be kept': {
    level: 'warn',
    from: 'worker',
    about: 'The blob store did not take it; the execution ended as it should, but cannot be run again.',
  },
  'a kept program that no row refers to could not be deleted': {
    level: 'warn',
    from: 'worker',
    about: 'Another worker recorded the attempt first. Retention deletes this copy later.',
  },
  'an attempt failed on our side': {
    level: 'error',
    from: 'worker',
    about: 'A fault of ours ended an attempt as `provisioning` or `sandbox_lost`. Report it with its `err`.',
  },
  'Postgres is away: the audit row goes to the outbox': {
    level: 'warn',
    from: 'worker',
    about: 'Nothing is lost. See CofferdamOutbox in docs/operations/runbook.md.',
  },
  'tenant policy cannot be read': {
    level: 'error',
    from: 'worker',
    about:
      'Postgres did not answer, and the cache has no copy of the policy. The execution waits. After a ' +
      'minute it ends `provisioning`, with the reason `policy_unavailable`.',
  },
  'cannot look up an interrupted attempt yet': {
    level: 'warn',
    from: 'worker',
    about:
      'Postgres is away, so nobody knows whether a dead worker had recorded its attempt; asked again ' +
      'every second.',
  },
  'the sandbox of a dead worker could not be killed; the janitor tries again': {
    level: 'error',
    from: 'worker',
    about: 'If it repeats, look for the sandbox on the dead worker’s host.',
  },
  'the audit tables are not as they should be: docs/operations/audit.md': {
    level: 'error',
    from: 'worker',
    about:
      'The check found something that only an owner of the schema can have done. `faults` has the first ' +
      'ten faults. See the alert CofferdamAuditFaults.',
  },
  'what a lost attempt had streamed cannot be read': {
    level: 'warn',
    from: 'worker',
    about: 'Redis went away; the result of an attempt whose worker died has no output.',
  },
  'destroyed what a dead worker left': {
    level: 'warn',
    from: 'worker',
    about: 'Another worker had died. This worker destroyed the sandboxes that it had left at `backend`.',
  },
  'made a template of machines': {
    level: 'info',
    from: 'worker',
    about:
      'The backend `microvm` booted a machine of a new size and saved a snapshot, from which it starts ' +
      'clones.',
  },
  'ended an idle session': {
    level: 'info',
    from: 'worker',
    about: 'Nobody had used it for its idle time, or its vendor’s time was over.',
  },
  'the offers of other workers were not read': {
    level: 'warn',
    from: 'worker',
    about: 'Redis did not answer. A refusal names only what this worker lacks.',
  },
  'a concurrency lease ran out before its renewal': {
    level: 'warn',
    from: 'worker',
    about: 'This worker was stopped, or Redis was slow, for longer than a lease lives.',
  },
  'counters stay unseeded; failing closed': {
    level: 'warn',
    from: 'api and worker',
    about:
      'After a loss of Redis the caps could not be rebuilt from audit rows. Executions wait until Postgres ' +
      'answers. After a minute they are refused with dimension `unknown`.',
  },
  'admission cannot decide; failing closed': {
    level: 'warn',
    from: 'api and worker',
    about:
      'Redis did not answer admission. The execution waits. After a minute it is refused with dimension ' +
      '`unknown`.',
  },
  'an admission that was given up could not be undone': {
    level: 'warn',
    from: 'worker',
    about: 'One charge too many may be counted until the window ends. The lease expires by itself.',
  },
  'a charge from before a loss of Redis could not be counted again': {
    level: 'warn',
    from: 'worker',
    about: 'Redis or Postgres did not answer. One charge too few may be counted until the window ends.',
  },
  'usage is shown as it was counted': {
    level: 'warn',
    from: 'api and worker',
    about:
      'A worker died before it settled an attempt, and the audit rows could not be read. The reservation ' +
      'of that attempt still counts.',
  },
  'a sandbox was not proven gone': {
    level: 'error',
    from: 'worker',
    about:
      'A part of a program may still run. The worker repeats the kill until the sandbox is gone. If the ' +
      'record `a sandbox is still not proven gone` repeats, look on the host.',
  },
  'a sandbox is still not proven gone': {
    level: 'warn',
    from: 'worker',
    about: 'Its backend did not take the kill. It is asked again, after a minute at the latest.',
  },
  'ended a sandbox that was not proven gone': {
    level: 'info',
    from: 'worker',
    about: 'The sandbox ended late, or a later kill succeeded. It is gone.',
  },
  'a listener threw': {
    level: 'error',
    from: 'worker',
    about: 'A fault of ours: the code that reports live events threw. The execution continues.',
  },
  'the sandbox was lost': {
    level: 'warn',
    from: 'worker',
    about: 'The execution ends `sandbox_lost`. See that ending in docs/operations/runbook.md.',
  },
  'an artifact could not be deleted': {
    level: 'warn',
    from: 'worker',
    about: 'It stays in the blob store until its retention ends.',
  },
  'queue upkeep failed': {
    level: 'warn',
    from: 'worker',
    about:
      'Heartbeat, sweep or outbox failed for another reason than an absent Redis. The worker repeats it ' +
      'every second.',
  },
  'execution was left by an error': {
    level: 'error',
    from: 'worker',
    about: 'It is taken again. After ten times it ends `worker_lost`. Report it with its `err`.',
  },
  'execution was left without an ending': {
    level: 'error',
    from: 'worker',
    about: 'The worker stopped working on it, without an error and without an ending. It is taken again.',
  },
  'execution lost its worker and its job': {
    level: 'warn',
    from: 'worker',
    about: 'The sweep found it and lets it be taken again; it ends `worker_lost` if it had begun.',
  },
  'an idle Postgres connection was lost': {
    level: 'warn',
    from: 'api and worker',
    about: 'A new one is made when needed.',
  },
  '… cannot be delivered; they are dropped until it answers': {
    level: 'warn',
    from: 'api and worker',
    about: 'The OTLP receiver is down; said once per outage. Nothing but telemetry is lost.',
  },
  ...DISPATCHER_LOG_FACTS,
  ...API_LOG_FACTS,
  ...BACKEND_LOG_FACTS,
}
