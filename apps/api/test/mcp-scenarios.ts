/**
 * Every server scenario of MCP's conformance suites: those that must pass, and those that are left out, with
 * the reason. A scenario that is in no list, or in a list but in no suite, fails
 * mcp-conformance.long.test.ts.
 */

/** The real server passes these. */
export const ON_REAL: readonly string[] = [
  'dns-rebinding-protection',
  'http-header-validation',
  'input-required-result-unsupported-methods',
  'input-required-result-validate-input',
  'ping',
  'resources-list',
  'sep-2164-resource-not-found',
  'server-initialize',
  'server-session-lifecycle',
  'server-sse-multiple-streams',
  'tools-list',
]

/**
 * These scenarios call tools or read resources with fixed names. mcp-fixtures.ts serves them in addition to
 * the real ones.
 */
export const WITH_FIXTURES: readonly string[] = [
  'json-schema-2020-12',
  'resources-read-binary',
  'resources-read-text',
  'resources-templates-read',
  'server-stateless',
  'tasks-capability-negotiation',
  'tasks-request-headers',
  'tasks-request-state-removal',
  'tasks-required-task-error',
  'tasks-wire-fields',
  'tools-call-audio',
  'tools-call-embedded-resource',
  'tools-call-error',
  'tools-call-image',
  'tools-call-mixed-content',
  'tools-call-simple-text',
  'tools-call-with-progress',
]

const because = (reason: string, ...names: string[]): Record<string, string> =>
  Object.fromEntries(names.map((name) => [name, reason]))

/** Scenario → the feature that it needs and that we do not offer. */
export const LEFT_OUT: Readonly<Record<string, string>> = {
  ...because(
    'prompts: the tools describe themselves',
    'prompts-list',
    'prompts-get-simple',
    'prompts-get-with-args',
    'prompts-get-embedded-resource',
    'prompts-get-with-image',
    'input-required-result-non-tool-request',
  ),
  ...because('one of its checks lists prompts', 'caching'),
  ...because('completion of arguments: no argument has a short list of values', 'completion-complete'),
  ...because(
    'logging to the client, which 2026-07-28 deprecates',
    'logging-set-level',
    'tools-call-with-logging',
  ),
  ...because(
    'sampling and roots, which 2026-07-28 deprecates',
    'tools-call-sampling',
    'input-required-result-basic-sampling',
    'input-required-result-basic-list-roots',
  ),
  ...because(
    'elicitation: no tool asks the user',
    'tools-call-elicitation',
    'elicitation-sep1034-defaults',
    'elicitation-sep1330-enums',
    'input-required-result-basic-elicitation',
    'input-required-result-request-state',
    'input-required-result-multiple-input-requests',
    'input-required-result-multi-round',
    'input-required-result-missing-input-response',
    'input-required-result-result-type',
    'input-required-result-tampered-state',
    'input-required-result-capability-check',
    'input-required-result-ignore-extra-params',
    'tasks-mrtr-input',
    'tasks-mrtr-composition',
  ),
  ...because('one of its checks needs a task that asks the user', 'tasks-dispatch-and-envelope'),
  ...because(
    'one of its checks needs a task that ends in a protocol error: ours end with a result or are cancelled',
    'tasks-lifecycle',
  ),
  ...because('the suite has no checks for it yet, and skips it', 'tasks-status-notifications'),
  ...because(
    'subscriptions to resources: an artifact never changes',
    'resources-subscribe',
    'resources-unsubscribe',
  ),
  ...because('streams that a client resumes: any replica answers any request', 'server-sse-polling'),
  ...because('x-mcp-header: no argument is mirrored into a header', 'http-custom-header-server-validation'),
  ...because(
    'the extension for skills',
    'sep-2640-skills-directory',
    'sep-2640-skills-enumeration',
    'sep-2640-skills-manifest',
  ),
}
