/** Log messages of the dispatcher. All others are in log-records.ts. */
import type { LogFacts } from './log-facts.ts'

/** The keys are the messages. `…` in a key stands for the variable part. */
export const DISPATCHER_LOG_FACTS: Readonly<Record<string, LogFacts>> = {
  'polling failed': {
    level: 'warn',
    from: 'dispatcher',
    about:
      'The control plane did not answer or refused the environment key (`err`), or the key file or `on_work` ' +
      'cannot be used. Tried again after `pause_ms`; `/readyz` fails meanwhile.',
  },
  'a work item was not acknowledged; it is offered again': {
    level: 'warn',
    from: 'dispatcher',
    about: 'The control plane did not take the acknowledgement. Nothing was run for the item.',
  },
  'a work item failed': {
    level: 'error',
    from: 'dispatcher',
    about:
      'Serving a session ended with an error (`err`), mostly of the control plane. The item was stopped, ' +
      'or its lease lapses. The dispatcher that claims it next makes its unanswered tool calls again.',
  },
  'the sandbox of a session was not prepared': {
    level: 'warn',
    from: 'dispatcher',
    about:
      'Redis did not answer for long, or no worker took the execution. The next tool call of the session ' +
      'tries again.',
  },
  'outputs of a session were not kept': {
    level: 'warn',
    from: 'dispatcher',
    about:
      '`reason` or `err` says why. They are collected again after the next tool call of the session and ' +
      'when its work item ends, as long as the sandbox lives.',
  },
  'memories of a session were not kept': {
    level: 'warn',
    from: 'dispatcher',
    about:
      'The sandbox or the control plane did not answer. Tried again after a later tool call of the ' +
      'session, and when its work item ends.',
  },
  'skills or memories of a session were not provided': {
    level: 'warn',
    from: 'dispatcher',
    about:
      'A memory store could not be downloaded, or the sandbox could not be prepared. Tool calls of the ' +
      'session fail with the reason.',
  },
  'some files of a session are too large or too many for its sandbox': {
    level: 'warn',
    from: 'dispatcher',
    about:
      'Skills and memories together may have 16 MiB and 1,000 files, and each file 8 MiB. `omitted` files ' +
      'were left out.',
  },
  'the program of on_work failed': {
    level: 'warn',
    from: 'dispatcher',
    about: 'It ended with the `status`, and its work item was stopped. Its output is in other records.',
  },
  'the program of on_work wrote': {
    level: 'info',
    from: 'dispatcher',
    about: 'One `line` of its stdout or stderr, without the secrets that it was given.',
  },
  'the depth of an environment could not be read': {
    level: 'warn',
    from: 'dispatcher',
    about:
      'The control plane did not answer, or `stats` refused the API key. Said once until it answers again. ' +
      'Meanwhile spare sandboxes follow the arrivals alone.',
  },
  'a warm pool could not be scaled': {
    level: 'warn',
    from: 'dispatcher',
    about:
      'The API server did not answer or refused; `err` says why (403: set ' +
      'sandboxes.scaledBy: dispatcher in the chart). Said once until it works again; tried every few seconds.',
  },
  'a warm pool is gone': {
    level: 'warn',
    from: 'dispatcher',
    about:
      'The SandboxWarmPool of that name does not exist, so sessions start cold or not at all. Install it.',
  },
  'a warm pool is scaled again': {
    level: 'info',
    from: 'dispatcher',
    about: 'The problem of the last warning about this pool is over.',
  },
}
