/**
 * Every message that a process of ours logs by a name of its own, and what it means to an operator. The message is the
 * stable name: alerts may match it. tests/architecture compares this with the calls in the source, both ways.
 */

export interface LogFacts {
  /** `request` is logged at `info` for refusals and `debug` for the rest. */
  level: 'debug' | 'info' | 'warn' | 'error' | 'info or debug'
  from: 'api' | 'worker' | 'api and worker'
  /** What it means, and what to do if anything. */
  about: string
}

/** By message; `…` stands for what differs. */
export const LOG_FACTS: Readonly<Record<string, LogFacts>> = {
  request: {
    level: 'info or debug',
    from: 'api',
    about: 'One request: method, route, status, milliseconds, key.',
  },
  'request failed': {
    level: 'error',
    from: 'api',
    about: 'Answered 5xx; `err` says why, `trace_id` is in the answer.',
  },
  'event stream broke off': {
    level: 'warn',
    from: 'api',
    about: 'A live stream ended early, mostly because Redis went away; the client resumes by Last-Event-ID.',
  },
  'audit export broke off': {
    level: 'warn',
    from: 'api',
    about: 'Postgres or the reader went away in the middle; the file has no last line, export again.',
  },
  'Redis did not take a change of a routine; workers do it within a minute': {
    level: 'warn',
    from: 'api',
    about: 'The change is stored; nothing to do but to look why Redis did not answer.',
  },
  'the clock of routines': {
    level: 'warn',
    from: 'api',
    about: 'Telling the schedule to Redis failed once; workers repeat it every minute.',
  },
  'the spans of a request were not kept': {
    level: 'warn',
    from: 'api',
    about: 'Redis did not take them: `status --trace` lacks the request. Nothing else is lost.',
  },
  'an interpreter was provisioned': {
    level: 'info',
    from: 'worker',
    about: 'A tenant has a code interpreter of its own at AgentCore now; `interpreter_id` names it.',
  },
  'an interpreter is not as it should be': {
    level: 'warn',
    from: 'worker',
    about:
      'AgentCore or IAM refused; `detail` says what. Executions of the tenant end `provisioning` there until a later round succeeds (docs/operations/agentcore.md).',
  },
  'deleted an interpreter that no row names': {
    level: 'warn',
    from: 'worker',
    about: 'Garbage at AgentCore: of a deleted tenant, or of a database that was restored. Nothing to do.',
  },
  'taking executions': {
    level: 'info',
    from: 'worker',
    about: 'The worker began; which backends work here.',
  },
  'background work failed': {
    level: 'error',
    from: 'worker',
    about:
      'Lease renewal, probes, janitor or retention failed once; each is repeated. Many: look at Redis and Postgres.',
  },
  'an attempt failed on our side': {
    level: 'error',
    from: 'worker',
    about: 'A fault of ours ended an attempt as `provisioning` or `sandbox_lost`. Report it with its `err`.',
  },
  'Postgres is away: the audit row goes to the outbox': {
    level: 'warn',
    from: 'worker',
    about: 'Nothing is lost; runbook: outbox.',
  },
  'tenant policy cannot be read': {
    level: 'error',
    from: 'worker',
    about:
      'Neither Postgres nor the cache knew the tenant: the execution ended `provisioning`, `policy_unavailable`.',
  },
  'cannot look up an interrupted attempt yet': {
    level: 'warn',
    from: 'worker',
    about:
      'Postgres is away, so nobody knows whether a dead worker had recorded its attempt; asked again every second.',
  },
  'the sandbox of a dead worker could not be killed; the janitor tries again': {
    level: 'error',
    from: 'worker',
    about: 'If it repeats, look for the sandbox on the dead worker’s host.',
  },
  'destroyed what a dead worker left': {
    level: 'warn',
    from: 'worker',
    about: 'A worker had died on this host.',
  },
  'ended an idle session': {
    level: 'info',
    from: 'worker',
    about: 'Nobody had used it for its idle time, or its vendor’s time was over.',
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
      'After a loss of Redis the caps could not be rebuilt from audit rows: refused until Postgres answers.',
  },
  'admission cannot decide; failing closed': {
    level: 'warn',
    from: 'api and worker',
    about: 'Redis did not answer admission: refused with dimension `unknown`.',
  },
  'an admission that was given up could not be undone': {
    level: 'warn',
    from: 'worker',
    about: 'One charge may be too many until the window ends; the lease frees itself.',
  },
  'docker: no unix socket reaches into containers here; the attach stream is used': {
    level: 'info',
    from: 'worker',
    about: 'The daemon runs elsewhere; executions are a little slower.',
  },
  'docker: the runtime does not work; the default is used': {
    level: 'info',
    from: 'worker',
    about: 'An optional runtime (crun) was passed over. Isolation is never weakened by it.',
  },
  'no event stream of the Docker daemon; OOM evidence is the agent’s alone': {
    level: 'warn',
    from: 'worker',
    about: 'Out of memory may be told as `crashed` until the stream is back.',
  },
  'the image cannot import a preload set; it is no longer offered': {
    level: 'warn',
    from: 'worker',
    about: 'Rebuild the image with the modules, or take the set out of the configuration.',
  },
  'a failed sandbox could not be removed': {
    level: 'warn',
    from: 'worker',
    about: 'The janitor tries again.',
  },
  'agentcore: a session was not ready; a fresh one is tried': {
    level: 'info',
    from: 'worker',
    about: 'Its first call did not end with our marker. Often: the interpreter’s image or role is broken.',
  },
  'agentcore: a session whose start failed may run on': {
    level: 'info',
    from: 'worker',
    about:
      'Nobody knows its id, and it was not found by its name. Its worker looks for it again with every round of the janitor, for ten minutes; at the latest the service ends it a minute after its deadline.',
  },
  'agentcore: a session was not stopped; it is asked for again': {
    level: 'warn',
    from: 'worker',
    about:
      'Its worker tries again with every round of the janitor, others once it is gone; at the latest the service ends it a minute after its deadline.',
  },
  'azure: a pool that was configured before does not answer': {
    level: 'warn',
    from: 'worker',
    about: 'What is left there could not be looked for; its cooldown ends it. Nothing new goes there.',
  },
  'azure: a session could not be given back; its next holder makes another': {
    level: 'warn',
    from: 'worker',
    about:
      'The attempt was stopped on its way into it, and the agent there does not answer; the next execution of the session gets a fresh one.',
  },
  'azure: a session that failed to start may wait until its cooldown ends': {
    level: 'warn',
    from: 'worker',
    about: 'The pool did not take its end; the service ends it by itself.',
  },
  'e2b: a sandbox whose creation failed may run on until its life ends': {
    level: 'warn',
    from: 'worker',
    about:
      'Nobody knows its id yet. Its worker looks for it with every round of the janitor; at the latest the vendor ends it at its time-out.',
  },
  'e2b: a failed sandbox was not removed': {
    level: 'warn',
    from: 'worker',
    about: 'The janitor tries again.',
  },
  'e2b: a session does not answer and is ended': {
    level: 'warn',
    from: 'worker',
    about: 'Its sandbox runs, but nobody speaks there; this execution gets a fresh one.',
  },
  'kubernetes: a session begins anew': {
    level: 'info',
    from: 'worker',
    about: 'Its pod is gone, does not answer, or has another key; this execution gets a fresh one.',
  },
  'a session could not be kept and is ended': {
    level: 'warn',
    from: 'worker',
    about:
      'It was not proven clean, the lease was lost, or its vendor does not answer; the next execution gets a fresh one.',
  },
  'a session may begin anew': {
    level: 'warn',
    from: 'worker',
    about:
      'Whether the registry took the end of a turn is not known; when it did not, the next execution gets a fresh sandbox.',
  },
  'a session that did not start is left to the reaper': {
    level: 'warn',
    from: 'worker',
    about:
      'Neither its sandbox was seen to be gone nor its entry; the next execution, or the reaper, ends both.',
  },
  'kubernetes: a claim that failed is left for later': {
    level: 'warn',
    from: 'worker',
    about:
      'Its pod could not be used, and the API server did not take the deletion. Its worker asks again with every round of the janitor; at the latest `shutdownTime` ends both.',
  },
  'kubernetes: the watch of claims does not hold': {
    level: 'warn',
    from: 'worker',
    about:
      'The API server ended or refused it eight times in a row; claims are heard of late, by lists. Look at the rights of the worker’s service account and at the API server.',
  },
  'orphaned cgroups were not swept': {
    level: 'warn',
    from: 'worker',
    about: 'Empty groups stay behind; harmless, tried again.',
  },
  'a sandbox was not destroyed': {
    level: 'warn',
    from: 'worker',
    about: 'At the end of a worker; the janitor of another one does it.',
  },
  'a cell was not destroyed': { level: 'warn', from: 'worker', about: 'The janitor tries again.' },
  'a cell could not be proven clean and is destroyed': {
    level: 'warn',
    from: 'worker',
    about:
      'A session goes on in a fresh place, under another `session_id`. Often: a program works against the cleaning.',
  },
  'a warm slot was not destroyed': { level: 'warn', from: 'worker', about: 'The janitor tries again.' },
  'a warm slot did not start': {
    level: 'warn',
    from: 'worker',
    about: 'Executions start cold meanwhile. Often: run `cofferdam doctor` on that host.',
  },
  'usage is shown as it was counted': {
    level: 'warn',
    from: 'api and worker',
    about:
      'A worker died before it settled, and the audit rows could not be asked. What it had reserved still counts.',
  },
  'a sandbox was not proven gone': {
    level: 'error',
    from: 'worker',
    about:
      'Something of a program may still run. Its worker kills it again until it is gone; where that is not logged, look on the host before you trust it.',
  },
  'a sandbox is still not proven gone': {
    level: 'warn',
    from: 'worker',
    about: 'Its backend did not take the kill. It is asked again, after a minute at the latest.',
  },
  'ended a sandbox that was not proven gone': {
    level: 'info',
    from: 'worker',
    about: 'A kill after the end of its execution was heard.',
  },
  'a listener threw': {
    level: 'error',
    from: 'worker',
    about: 'A fault of ours in telling live events; the run goes on.',
  },
  'the sandbox was lost': {
    level: 'warn',
    from: 'worker',
    about: 'The execution ends `sandbox_lost`; runbook: that ending.',
  },
  'an artifact could not be deleted': {
    level: 'warn',
    from: 'worker',
    about: 'It stays in the blob store until its retention.',
  },
  'queue upkeep failed': {
    level: 'warn',
    from: 'worker',
    about:
      'Heartbeat, sweep or outbox failed for another reason than a missing Redis; repeated every second.',
  },
  'execution was left by an error': {
    level: 'error',
    from: 'worker',
    about: 'It is taken again; after ten times it is ended. Report it with its `err`.',
  },
  'execution was left without an ending': {
    level: 'error',
    from: 'worker',
    about: 'The same, without an error.',
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
}
