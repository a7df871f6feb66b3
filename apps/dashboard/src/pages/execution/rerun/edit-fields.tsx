import type { Operations } from '@cofferdam/client'
import { useId, useState } from 'preact/hooks'
import { read } from '../../../api/call.ts'
import { useResource } from '../../../api/use-resource.ts'
import { LIMIT_FIELDS, variableField } from './edit-of.ts'

const AS_IT_WAS = 'as it was'

/** What a rerun may change. The original request is not shown, because the API never returns it. */
export function EditFields({ missing }: { missing: readonly string[] }) {
  return (
    <>
      {missing.length > 0 && <VariableFields names={missing} />}
      <ArgumentField />
      <fieldset class="edit-group">
        <legend>Limits</legend>
        {LIMIT_FIELDS.map(({ name, words, min, max, step }) => (
          <label key={name} class="field">
            {words}
            <input type="number" name={name} min={min} max={max} step={step} placeholder={AS_IT_WAS} />
          </label>
        ))}
      </fieldset>
      <BackendField />
    </>
  )
}

function ArgumentField() {
  const [replaces, setReplaces] = useState(false)
  const hint = useId()
  return (
    <div class="field">
      <label class="check">
        <input
          type="checkbox"
          name="replaces_args"
          checked={replaces}
          onChange={(event) => setReplaces(event.currentTarget.checked)}
        />
        Other arguments
      </label>
      {replaces && (
        <>
          <textarea name="args" rows={3} aria-label="Arguments" aria-describedby={hint} spellcheck={false} />
          <p id={hint} class="muted small">
            One a line, instead of all that were there. Empty: none.
          </p>
        </>
      )}
    </div>
  )
}

function BackendField() {
  const backends = useResource('backends', (signal) =>
    read<Operations['listBackends']['result']>('/v1/backends', { signal }),
  )
  return (
    <label class="field">
      Backend
      <select name="backend">
        <option value="">{AS_IT_WAS}</option>
        <option value="auto">auto</option>
        {backends.data?.backends.map(({ name, available }) => (
          <option key={name} value={name}>
            {available ? name : `${name}, not available now`}
          </option>
        ))}
      </select>
    </label>
  )
}

/** Values are secrets as a rule, so they are typed unseen. */
function VariableFields({ names }: { names: readonly string[] }) {
  return (
    <fieldset class="edit-group wide">
      <legend>Variables whose values were not kept</legend>
      <p class="muted small" role="alert">
        Values are kept only encrypted, and there was no key for it. Give each again, or leave it out.
      </p>
      {names.map((name) => (
        <label key={name} class="field">
          <code>{name}</code>
          <input
            type="password"
            name={variableField(name)}
            autocomplete="new-password"
            placeholder="Empty: left out"
          />
        </label>
      ))}
    </fieldset>
  )
}
