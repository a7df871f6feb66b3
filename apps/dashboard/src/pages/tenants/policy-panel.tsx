import type { ReadableTenantPolicy } from '@cofferdam/client'
import { Facts, Panel } from '../../parts/panel.tsx'
import { count, counted, size } from '../../words/figures.ts'
import type { Change, Field } from './settings/fields.ts'
import { SettingsForm } from './settings/settings-form.tsx'
import { RULES } from './rules.ts'
import { tenantPath } from './tenant.ts'

/** The fields that one changes most, with the values and bounds of libs/contract/src/tenant.ts. */
const FIELDS: readonly Field[] = [
  { name: 'sandbox_enabled', words: 'May run programs', kind: 'flag' },
  { name: 'encrypt_outputs', words: 'Outputs are stored encrypted', kind: 'flag' },
  { name: 'run_sessions', words: 'Executions of a run share a session', kind: 'flag' },
  { name: 'allow_emulation', words: 'May run in machines that are only emulated', kind: 'flag' },
  {
    name: 'min_isolation',
    words: 'Least isolation',
    kind: 'choice',
    choices: ['none', 'process', 'jail', 'container', 'gvisor', 'microvm-emulated', 'microvm'],
  },
  {
    name: 'compliance_tier',
    words: 'Compliance tier',
    kind: 'choice',
    choices: ['standard', 'regulated', 'hipaa'],
  },
  { name: 'keep_program', words: 'Programs kept', kind: 'choice', choices: ['never', 'errors', 'always'] },
  { name: 'retention_days', words: 'Days rows are kept', kind: 'number', min: 1, max: 180 },
  {
    name: 'output_retention_days',
    words: 'Days outputs are kept',
    kind: 'number',
    min: 1,
    max: 180,
    empty: 'as their rows',
  },
]

/** What the tenant may do. */
export function PolicyPanel({
  id,
  policy,
  onSaved,
}: {
  id: string
  policy: ReadableTenantPolicy
  onSaved: () => void
}) {
  const form = { now: policy, path: tenantPath(id, 'policy'), notes: notesOf, onSaved }
  return (
    <Panel title="Policy">
      <SettingsForm {...form} title="Change the policy" fields={FIELDS} />
      <div class="more-policy">
        <Facts
          of={[
            ['Artifact', `at most ${size(policy.max_artifact_bytes)}`],
            [
              'Artifacts',
              `at most ${count(policy.max_artifact_count)}, ${size(policy.max_artifacts_total_bytes)} in all`,
            ],
            // The values are secrets. How many there are is not.
            ['Redacted', policy.redact && counted(policy.redact.length, 'value')],
          ]}
        />
        <details>
          <summary class="muted small">Rules: network, packages, commands, templates, redaction</summary>
          <SettingsForm {...form} title="Change the rules" fields={RULES} />
        </details>
      </div>
    </Panel>
  )
}

/** What a change of the policy means. */
function notesOf(changes: readonly Change[]): string[] {
  const after = (name: string): string | undefined => changes.find(({ field }) => field.name === name)?.after
  const tier = after('compliance_tier')
  const fewer = changes.find(
    ({ field, before, after: days }) => field.name === 'retention_days' && Number(days) < Number(before),
  )
  return [
    'Live at the next execution that starts.',
    after('sandbox_enabled') === 'false' && 'Every new execution will be refused.',
    tier !== undefined && tier !== 'standard' && 'Leaving the standard tier switches its sandbox off.',
    after('redact_none') === 'true' && 'Programs that print what was redacted will show it.',
    fewer !== undefined && 'Older rows, with results and outputs, will be deleted.',
  ].filter((note) => note !== false)
}
