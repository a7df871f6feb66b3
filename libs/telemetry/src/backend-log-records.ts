/**
 * Log messages of backends and their warm slots. Those of the dispatcher are in dispatcher-log-records.ts,
 * all others in log-records.ts.
 */
import type { LogFacts } from './log-facts.ts'

/** The keys are the messages. `…` in a key stands for the variable part. */
export const BACKEND_LOG_FACTS: Readonly<Record<string, LogFacts>> = {
  'docker: no unix socket reaches into containers here; the attach stream is used': {
    level: 'info',
    from: 'worker',
    about:
      'The daemon or the worker runs elsewhere (another host, a container). Executions are a little slower.',
  },
  'docker: the runtime does not work; the default is used': {
    level: 'info',
    from: 'worker',
    about: 'An optional runtime (crun) was passed over. Isolation is never weakened by it.',
  },
  'no event stream of the Docker daemon; OOM evidence is the agent’s alone': {
    level: 'warn',
    from: 'worker',
    about:
      'A program that was killed for its memory may end `crashed` instead of `oom` until the stream is back.',
  },
  'the image cannot import a preload set; it is no longer offered': {
    level: 'warn',
    from: 'worker',
    about: 'Rebuild the image with the modules, or take the set out of the configuration.',
  },
  'a container’s cgroup is not visible from here': {
    level: 'warn',
    from: 'worker',
    about:
      'The daemon is on another host, or the worker runs in a container. On gVisor, CPU time and memory ' +
      'are not measured then, and `cpu_time_ms` is refused.',
  },
  'a failed sandbox could not be removed': {
    level: 'warn',
    from: 'worker',
    about: 'The janitor tries again.',
  },
  'agentcore: a session was not ready; a fresh one is tried': {
    level: 'info',
    from: 'worker',
    about:
      'Its first call did not return the expected marker. If this happens often, the interpreter’s image ' +
      'or role is broken.',
  },
  'agentcore: a session whose start failed may run on': {
    level: 'info',
    from: 'worker',
    about:
      'Nobody knows its id, and it was not found by its name. Its worker looks for it again with every ' +
      'round of the janitor, for ten minutes; at the latest the service ends it a minute after its ' +
      'deadline.',
  },
  'agentcore: a session was not stopped; it is asked for again': {
    level: 'warn',
    from: 'worker',
    about:
      'Its worker tries again with every round of the janitor. If that worker dies, others do. At the ' +
      'latest, the service ends the session a minute after its deadline.',
  },
  'azure: a pool that was configured before does not answer': {
    level: 'warn',
    from: 'worker',
    about:
      'The worker could not look for sessions that are left there. The cooldown ends them. No new session ' +
      'starts there.',
  },
  'azure: a session could not be given back; its next holder makes another': {
    level: 'warn',
    from: 'worker',
    about:
      'The attempt was stopped before it used the session, and the guest agent in the session does not ' +
      'answer. The next execution of the session gets a fresh sandbox.',
  },
  'azure: a session that failed to start may wait until its cooldown ends': {
    level: 'warn',
    from: 'worker',
    about: 'The pool did not confirm the end of the session. The service ends it after the cooldown.',
  },
  'e2b: a sandbox did not start; a fresh one is tried': {
    level: 'info',
    from: 'worker',
    about: 'Nothing of a user had run. If it repeats, look at the template and at E2B’s status page.',
  },
  'e2b: a sandbox whose creation failed may run on until its life ends': {
    level: 'warn',
    from: 'worker',
    about:
      'Nobody knows its id yet. Its worker looks for it with every round of the janitor; at the latest ' +
      'the vendor ends it at its time-out.',
  },
  'e2b: a failed sandbox was not removed': {
    level: 'warn',
    from: 'worker',
    about: 'The janitor tries again.',
  },
  'e2b: a session does not answer and is ended': {
    level: 'warn',
    from: 'worker',
    about: 'Its sandbox runs, but the guest agent does not answer. This execution gets a fresh session.',
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
      'It was not proven clean, the lease was lost, or its vendor does not answer; the next execution ' +
      'gets a fresh one.',
  },
  'a session may begin anew': {
    level: 'warn',
    from: 'worker',
    about:
      'The worker does not know whether the registry stored the end of a turn. If it did not, the next ' +
      'execution gets a fresh sandbox.',
  },
  'a session that did not start is left to the reaper': {
    level: 'warn',
    from: 'worker',
    about:
      'The worker could not confirm that its sandbox and its entry are gone. The next execution or the ' +
      'reaper ends both.',
  },
  'ended a sandbox of a session that the registry has lost': {
    level: 'warn',
    from: 'worker',
    about: 'Redis lost the entry, so nobody could attach to the sandbox any more. The session begins anew.',
  },
  'sessions that the registry has lost may run on': {
    level: 'warn',
    from: 'worker',
    about: 'Redis or the vendor did not answer. The janitor’s next round, half a minute later, asks again.',
  },
  'kubernetes: a claim that failed is left for later': {
    level: 'warn',
    from: 'worker',
    about:
      'Its pod could not be used, and the API server did not take the deletion. Its worker asks again ' +
      'with every round of the janitor; at the latest `shutdownTime` ends both.',
  },
  'kubernetes: the watch of claims does not hold': {
    level: 'warn',
    from: 'worker',
    about:
      'The API server ended or refused the watch eight times in a row. The worker lists claims instead, so ' +
      'it sees changes late. Look at the rights of the worker’s service account and at the API server.',
  },
  'orphaned cgroups and uids were not swept': {
    level: 'warn',
    from: 'worker',
    about: 'Empty groups and unused uids stay behind, which is harmless. The worker tries again.',
  },
  'a sandbox was not destroyed': {
    level: 'warn',
    from: 'worker',
    about: 'The worker ended without destroying it. The janitor of another worker does that.',
  },
  'a waiting sandbox was not destroyed': {
    level: 'warn',
    from: 'worker',
    about: 'Its worker kills it again until it is gone, and counts its memory as used until then.',
  },
  'a cell could not be proven clean and is destroyed': {
    level: 'warn',
    from: 'worker',
    about:
      'A session goes on in a fresh sandbox, with another ID. If this happens often, a program works ' +
      'against the cleaning.',
  },
  'a warm slot did not start': {
    level: 'warn',
    from: 'worker',
    about: 'Executions start cold meanwhile. If this happens often, run `cofferdam doctor` on that host.',
  },
}
