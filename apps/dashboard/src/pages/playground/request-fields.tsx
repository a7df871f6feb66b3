import type { Operations } from '@cofferdam/client'
import type { ComponentChildren } from 'preact'
import { read } from '../../api/call.ts'
import type { Failure } from '../../api/failure.ts'
import { isAdmin } from '../../api/session.ts'
import { useResource } from '../../api/use-resource.ts'
import { Panel } from '../../parts/panel.tsx'
import { Field } from './field.tsx'
import { ISOLATIONS, LIMITS } from './request-of.ts'

export interface FieldsProps {
  /** The texts that the form begins with, by field. */
  texts: Readonly<Record<string, string>>
  /** Why the API refused the last request. */
  failure: Failure | null
}

/** The fields of the form besides the program and its language. */
export function RequestFields(props: FieldsProps) {
  return (
    <Panel title="Where and how">
      <div class="settings">
        <OwnerFields {...props} />
        <BackendField {...props} />
        <ChoiceField {...props} name="min_isolation" words="Isolation, at least" none="as the policy says">
          {ISOLATIONS}
        </ChoiceField>
        <ChoiceField {...props} name="network" words="Network" none="none">
          {['public']}
        </ChoiceField>
      </div>
      <More {...props} title="Limits" names={LIMITS.map(({ name }) => `limits.${name}`)}>
        <div class="settings">
          {LIMITS.map(({ name, words, min, max, step }) => (
            <Field key={name} name={`limits.${name}`} words={words} failure={props.failure}>
              {(control) => (
                <input
                  {...control}
                  type="number"
                  min={min}
                  max={max}
                  step={step}
                  defaultValue={props.texts[`limits.${name}`] ?? ''}
                  placeholder="default"
                />
              )}
            </Field>
          ))}
        </div>
      </More>
      <More {...props} title="Input and files" names={INPUTS.map(({ name }) => name)}>
        {INPUTS.map(({ name, words, hint }) => (
          <Field key={name} name={name} words={words} hint={hint} failure={props.failure}>
            {(control) => (
              <textarea
                {...control}
                class="mono"
                rows={2}
                spellcheck={false}
                defaultValue={props.texts[name] ?? ''}
              />
            )}
          </Field>
        ))}
      </More>
    </Panel>
  )
}

const INPUTS = [
  { name: 'program.argv', words: 'Arguments', hint: 'One a line.' },
  { name: 'stdin', words: 'Standard input', hint: 'As it is, with its last line feed.' },
  { name: 'env', words: 'Variables', hint: 'NAME=value, one a line. A reload forgets them.' },
  { name: 'artifacts', words: 'Files to return', hint: 'Patterns such as *.png or out/**, one a line.' },
] as const

function OwnerFields({ texts, failure }: FieldsProps) {
  const text = { maxLength: 128, autocomplete: 'off', spellcheck: false, required: true }
  return (
    <>
      {isAdmin.value ? (
        <Field name="tenant_id" words="Tenant" failure={failure}>
          {(control) => (
            <input
              {...control}
              {...text}
              list="tenants"
              defaultValue={texts['tenant_id'] ?? ''}
              placeholder="Choose one"
            />
          )}
        </Field>
      ) : (
        <input type="hidden" name="tenant_id" value={texts['tenant_id'] ?? ''} />
      )}
      <Field name="agent_id" words="Agent" failure={failure}>
        {(control) => <input {...control} {...text} defaultValue={texts['agent_id'] ?? ''} />}
      </Field>
    </>
  )
}

function BackendField(props: FieldsProps) {
  const backends = useResource('backends', (signal) =>
    read<Operations['listBackends']['result']>('/v1/backends', { signal }),
  )
  const notes = new Map(
    backends.data?.backends.map(({ name, isolation, available }) => [
      name,
      `${name} (${isolation}${available ? '' : ', not available now'})`,
    ]),
  )
  return (
    <ChoiceField {...props} name="backend" words="Backend" none="any that fits" notes={notes}>
      {[...notes.keys()]}
    </ChoiceField>
  )
}

/**
 * A list to choose from. A value from the address is offered even if the list lacks it: the API then says
 * what is wrong with it.
 */
function ChoiceField(
  props: FieldsProps & {
    name: string
    words: string
    none: string
    notes?: ReadonlyMap<string, string>
    children: readonly string[]
  },
) {
  const { name, words, none, notes, children } = props
  const chosen = props.texts[name] ?? ''
  const offered = chosen === '' || children.includes(chosen) ? children : [chosen, ...children]
  return (
    <Field name={name} words={words} failure={props.failure}>
      {(control) => (
        <select {...control}>
          <option value="">{none}</option>
          {offered.map((one) => (
            <option key={one} value={one} selected={one === chosen}>
              {notes?.get(one) ?? one}
            </option>
          ))}
        </select>
      )}
    </Field>
  )
}

/** Fields that are folded away unless one of them begins with a text. */
function More(props: FieldsProps & { title: string; names: readonly string[]; children: ComponentChildren }) {
  const { title, names, texts } = props
  return (
    <details class="more-fields" open={names.some((name) => (texts[name] ?? '') !== '')}>
      <summary>{title}</summary>
      {props.children}
    </details>
  )
}
