import { useState } from 'preact/hooks'
import { isAdmin, mayChange } from '../../../api/session.ts'
import { Facts } from '../../../parts/panel.tsx'
import { counted } from '../../../words/figures.ts'
import { changesOf, draftOf, textIn, wordsOf, type Change, type Draft, type Field } from './fields.ts'
import { FieldInput } from './field-input.tsx'
import { SaveDialog } from './save-dialog.tsx'

/**
 * Settings of the API as a form, or as facts for a key that may not change them. `now` is what the page read
 * last. The form shows it until something is typed. Changes are then compared with what it showed at that
 * moment, the base.
 */
export function SettingsForm(props: {
  title: string
  fields: readonly Field[]
  now: object
  /** Answers GET with the settings, and PATCH changes them. */
  path: string
  /** What one should know before these changes are saved. */
  notes: (changes: readonly Change[]) => readonly string[]
  /** Called when the dialog opens that shows the notes. */
  onAsk?: () => void
  onSaved: () => void
}) {
  const { title, fields, now, path } = props
  const [edit, setEdit] = useState<{ base: object; draft: Draft } | null>(null)
  const [saves, setSaves] = useState(false)
  // What was saved, or read by the dialog, is shown until the page has read it again.
  const [saved, setSaved] = useState<{ over: object; value: object } | null>(null)
  const current = saved?.over === now ? saved.value : now
  const base = edit?.base ?? current
  const draft = edit?.draft ?? draftOf(fields, current)
  const changes = changesOf(fields, base, draft)

  if (!isAdmin.value || !mayChange.value)
    return (
      <Facts
        of={fields
          .filter(({ isSecret }) => isSecret !== true)
          .map((field) => [field.words, <span class="lines">{wordsOf(field, textIn(now, field))}</span>])}
      />
    )

  /** Takes what somebody else set, and keeps the other changes. */
  const takeTheirs = (theirs: object, taken: readonly Field[]): void => {
    setSaves(false)
    setSaved({ over: now, value: theirs })
    setEdit({ base: theirs, draft: { ...rebased(fields, changes, theirs), ...draftOf(taken, theirs) } })
  }
  return (
    <form
      onFocusOut={() => {
        if (changes.length === 0) setEdit(null)
      }}
      onSubmit={(event) => {
        event.preventDefault()
        if (changes.length === 0) return
        props.onAsk?.()
        setSaves(true)
      }}
    >
      <div class="settings">
        {fields.map((field) => (
          <FieldInput
            key={field.name}
            field={field}
            text={draft[field.name] ?? ''}
            onText={(text) => setEdit({ base, draft: { ...draft, [field.name]: text } })}
          />
        ))}
      </div>
      <div class="settings-actions">
        {changes.length > 0 && (
          <>
            <span class="muted small">{counted(changes.length, 'change')} not saved</span>
            <button type="button" class="button" onClick={() => setEdit(null)}>
              Discard
            </button>
          </>
        )}
        <button type="submit" class="button primary" disabled={changes.length === 0}>
          Save…
        </button>
      </div>
      {saves && (
        <SaveDialog
          title={title}
          fields={fields}
          path={path}
          base={base}
          draft={draft}
          notes={props.notes(changes)}
          onTheirs={takeTheirs}
          onSaved={(value) => {
            setSaves(false)
            setEdit(null)
            setSaved({ over: now, value })
            props.onSaved()
          }}
          onClose={() => setSaves(false)}
        />
      )}
    </form>
  )
}

/** The draft with one’s own changes on top of what is there now. */
const rebased = (fields: readonly Field[], changes: readonly Change[], now: object): Draft => ({
  ...draftOf(fields, now),
  ...Object.fromEntries(changes.map(({ field, after }) => [field.name, after])),
})
