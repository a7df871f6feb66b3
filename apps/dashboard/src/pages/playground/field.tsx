import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import type { Failure } from '../../api/failure.ts'
import { problemOf } from './request-of.ts'

/** What a control gets from its field. */
export interface ControlProps {
  id: string
  name: string
  'aria-describedby'?: string
  'aria-invalid'?: true
}

/** A control with its label, a hint, and what the API objects to. */
export function Field(props: {
  name: string
  words: string
  hint?: string
  failure: Failure | null
  class?: string
  children: (control: ControlProps) => ComponentChildren
}) {
  const id = useId()
  const { name, words, hint } = props
  const problem = problemOf(props.failure, name)
  const isDescribed = problem !== undefined || hint !== undefined
  return (
    <div class={`setting ${props.class ?? ''}`}>
      <label for={id}>{words}</label>
      {props.children({
        id,
        name,
        ...(isDescribed ? { 'aria-describedby': `${id}-about` } : {}),
        ...(problem === undefined ? {} : { 'aria-invalid': true }),
      })}
      {isDescribed && (
        <p id={`${id}-about`} class={problem === undefined ? 'muted small' : 'field-problem'}>
          {problem ?? hint}
        </p>
      )}
    </div>
  )
}
