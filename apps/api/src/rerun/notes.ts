/** What makes a rerun differ from the first run although nobody edited it. */
import type { AuditRow, ExecutionRequest, KeptRequest, Rerun } from '@cofferdam/contract'
import type { TenantPolicyEvent } from '@cofferdam/store'

type Note = Rerun['notes'][number]

/** `events`: of the tenant, newest first. `first`: the audit row of the first run. */
export function rerunNotes(
  request: ExecutionRequest,
  { not_copied: notCopied }: KeptRequest,
  first: AuditRow,
  events: readonly TenantPolicyEvent[],
): Note[] {
  const since = events.filter(({ created_at: at }) => Date.parse(at) > Date.parse(first.started_at))
  const policy = new Set(since.map(({ event_type: type }) => type).filter((type) => POLICY.has(type)))
  const isTemplateChanged = since.some(
    ({ event_type: type, before, after }) =>
      type === 'template' && [before, after].some((one) => templateOf(one) === first.template_id),
  )
  return [
    ...note(
      'session_now',
      request.session !== undefined &&
        `It runs in session ${request.session.key} as it is now, not as it was then.`,
    ),
    ...note(
      'workspace_now',
      request.workspace !== undefined &&
        `It gets workspace ${request.workspace.name} as it is now, and its changes are merged back.`,
    ),
    ...note(
      'template_changed',
      isTemplateChanged &&
        `Template ${first.template_id ?? ''} was changed since; its settings of today apply.`,
    ),
    ...note(
      'policy_changed',
      policy.size > 0 &&
        `The policy was changed since, and applies as it is today: ${[...policy].join(', ')}.`,
    ),
    ...note(
      'not_copied',
      notCopied.length > 0 && `These fields of the first request are not repeated: ${notCopied.join(', ')}.`,
    ),
  ]
}

/** Parts of a policy that can change what a program does. Caps and retention cannot. */
const POLICY = new Set([
  'compliance_tier',
  'sandbox_enabled',
  'min_isolation',
  'environments',
  'redact',
  'network',
  'packages',
  'commands',
  'encrypt_outputs',
  'templates',
  'max_artifact_bytes',
  'max_artifacts_total_bytes',
  'max_artifact_count',
  'run_sessions',
])

/** Kinds of events that notes are made of. */
export const NOTED_EVENTS = ['template', ...POLICY]

const templateOf = (value: unknown): unknown => (value as { template_id?: unknown } | null)?.template_id

const note = (code: Note['code'], text: string | false): Note[] => (text === false ? [] : [{ code, text }])
