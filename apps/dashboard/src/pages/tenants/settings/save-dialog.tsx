import { useEffect, useState } from 'preact/hooks'
import { call, read } from '../../../api/call.ts'
import { asFailure, type Failure } from '../../../api/failure.ts'
import { Modal } from '../../../parts/modal.tsx'
import { Problem } from '../../../parts/problem.tsx'
import { changesOf, othersOf, patchOf, textIn, wordsOf, type Draft, type Field } from './fields.ts'

/**
 * Shows what saving will change, and reads the settings again before it does. If somebody else changed them
 * since `base` was read, it shows their values beside one’s own and saves nothing until one decides. Only the
 * changed fields are sent, so that the others keep what somebody else gave them.
 */
export function SaveDialog(props: {
  title: string
  fields: readonly Field[]
  path: string
  base: object
  draft: Draft
  notes: readonly string[]
  onTheirs: (theirs: object, taken: readonly Field[]) => void
  /** Called with the settings that the API returned. */
  onSaved: (value: object) => void
  onClose: () => void
}) {
  const { fields, path, base, draft } = props
  const [now, setNow] = useState(base)
  const [isBusy, setBusy] = useState(true)
  const [failure, setFailure] = useState<Failure | null>(null)
  const changes = changesOf(fields, base, draft)
  const others = othersOf(fields, base, now, draft)
  const check = async (saves: boolean): Promise<void> => {
    setBusy(true)
    setFailure(null)
    try {
      const found = await read<object>(path)
      const isNew = othersOf(fields, now, found, draft).length > 0
      setNow(found)
      if (saves && !isNew) {
        return props.onSaved(await call<object>('PATCH', path, { body: patchOf(changes, found) }))
      }
    } catch (error) {
      setFailure(asFailure(error))
    }
    setBusy(false)
  }
  useEffect(() => void check(false), [])
  return (
    <Modal title={props.title} onClose={props.onClose}>
      <div class="modal-body">
        {others.length > 0 && (
          <p class="stale" role="alert">
            Somebody changed {others.length === 1 ? 'a value' : `${others.length} values`} since you read
            them. Nothing is saved yet.
          </p>
        )}
        <ChangeTable {...props} now={now} others={others} />
        {props.notes.map((note) => (
          <p key={note}>{note}</p>
        ))}
        {failure !== null && <Problem failure={failure} />}
        <div class="modal-actions">
          <button type="button" class="button" onClick={props.onClose}>
            Back
          </button>
          {others.length > 0 && (
            <button type="button" class="button" onClick={() => props.onTheirs(now, others)}>
              Take theirs
            </button>
          )}
          <button type="button" class="button primary" disabled={isBusy} onClick={() => void check(true)}>
            {isBusy ? 'Checking' : others.length > 0 ? 'Save mine' : 'Save'}
          </button>
        </div>
      </div>
    </Modal>
  )
}

function ChangeTable(props: {
  fields: readonly Field[]
  base: object
  draft: Draft
  now: object
  others: readonly Field[]
}) {
  const { base, now, others } = props
  const changes = changesOf(props.fields, base, props.draft)
  const mineOf = new Map(changes.map(({ field, after }) => [field, after]))
  const shown = props.fields.filter((field) => mineOf.has(field) || others.includes(field))
  return (
    <table class="rows cards changed">
      <thead>
        <tr>
          <th>Setting</th>
          <th>{others.length > 0 ? 'When you read it' : 'Before'}</th>
          {others.length > 0 && <th>Now</th>}
          <th>{others.length > 0 ? 'Yours' : 'After'}</th>
        </tr>
      </thead>
      <tbody>
        {shown.map((field) => {
          const mine = mineOf.get(field)
          const texts = [textIn(base, field), textIn(now, field), mine ?? textIn(base, field)] as const
          const [was, is, own] = texts.map((text) => wordsOf(field, text, texts))
          return (
            <tr key={field.name}>
              <td class="wide">{field.words}</td>
              <td data-name="before:">{was}</td>
              {others.length > 0 && (
                <td data-name="now:" class={others.includes(field) ? 'tone-warn' : ''}>
                  {is}
                </td>
              )}
              <td data-name={others.length > 0 ? 'yours:' : 'after:'}>
                {mine === undefined ? <span class="muted">not changed</span> : own}
              </td>
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}
