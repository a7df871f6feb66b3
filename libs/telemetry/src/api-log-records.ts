/** Log messages of the API. All others are in log-records.ts. */
import type { LogFacts } from './log-facts.ts'

/** The keys are the messages. `…` in a key stands for the variable part. */
export const API_LOG_FACTS: Readonly<Record<string, LogFacts>> = {
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
  'signed in to the dashboard': {
    level: 'info',
    from: 'api',
    about: 'A browser signed in with a key or a link; `key_id` says as whom. Never the code or the cookie.',
  },
  'what a caller did has no event': {
    level: 'error',
    from: 'api',
    about:
      'A caller cancelled an execution, ended a session or the like, but Postgres did not store the event. ' +
      'This record has its `action`, `details` and `key_id`.',
  },
  'sign-ins of a revoked key were not removed': {
    level: 'warn',
    from: 'api',
    about: 'Redis did not answer. They end by themselves within seconds, because their key is looked up.',
  },
  'event stream broke off': {
    level: 'warn',
    from: 'api',
    about: 'A live stream ended early, mostly because Redis went away; the client resumes by Last-Event-ID.',
  },
  'audit export broke off': {
    level: 'warn',
    from: 'api',
    about:
      'Postgres or the reader went away in the middle, so the file is incomplete. Continue the export with ' +
      '`after` (docs/reference/api.md).',
  },
  'Redis did not take a change of a routine; workers do it within a minute': {
    level: 'warn',
    from: 'api',
    about: 'The change is stored. Find out why Redis did not answer.',
  },
  'artifacts of an MCP result were not read': {
    level: 'warn',
    from: 'api',
    about: 'The store did not answer; the result has links in place of its images, perhaps without types.',
  },
  'the MCP handler refused a request': {
    level: 'debug',
    from: 'api',
    about: 'A client sent a message that MCP does not allow; `err` says what.',
  },
  'the keys of the OAuth issuer were not read': {
    level: 'warn',
    from: 'api',
    about:
      'Keys that were read earlier stay valid for an hour. Without such keys, /mcp answers access tokens ' +
      'with 503.',
  },
  '/mcp accepts access tokens of an issuer': {
    level: 'info',
    from: 'api',
    about: 'COFFERDAM_OAUTH_ISSUER is set; `issuer`, `audience` and `tenant_claim` say what is accepted.',
  },
  'execute_code failed': {
    level: 'error',
    from: 'api',
    about: 'A fault of ours; the agent got `ok: false` with SandboxProvisioning or SandboxError.',
  },
  'an MCP call cannot be cancelled by a notification': {
    level: 'warn',
    from: 'api',
    about: 'Redis did not take the name of the call; closing the request still cancels it.',
  },
  'progress of an MCP call broke off': {
    level: 'warn',
    from: 'api',
    about: 'The client hears no more of the execution until its result.',
  },
  'notifications of tasks broke off': {
    level: 'warn',
    from: 'api',
    about: 'Redis or Postgres did not answer; the client asks with tasks/get, or listens again.',
  },
  'an MCP tool call failed': {
    level: 'error',
    from: 'api',
    about: 'A fault of ours; the agent got an error with `trace_id`.',
  },
  'the clock of routines': {
    level: 'warn',
    from: 'api',
    about:
      'The connection to the schedules in Redis had an error. Workers apply all schedules again every ' +
      'minute.',
  },
  'the spans of a request were not kept': {
    level: 'warn',
    from: 'api',
    about: 'Redis did not take them: `status --trace` lacks the request. Nothing else is lost.',
  },
  'the version of this process was not announced': {
    level: 'warn',
    from: 'api',
    about: 'Redis did not answer. `cofferdam upgrade --check` may not list this process for a moment.',
  },
}
