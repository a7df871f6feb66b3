import type { Accepted } from '@cofferdam/client'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { createAskOnce } from '../../api/ask-once.ts'
import { asFailure, type Failure } from '../../api/failure.ts'
import { CopyAs } from '../../parts/copy-as/copy-as.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Problem } from '../../parts/problem.tsx'
import { RequestFields } from './request-fields.tsx'
import { EXAMPLES, problemOf, requestOf } from './request-of.ts'

const SOURCE = 'program.source'

/** The request. Its fields keep their own texts, so that no key press draws the page again. */
export function RequestForm(props: {
  /** What the fields begin with, by name. */
  texts: Readonly<Record<string, string>>
  /** Whether the browser keeps the program over a reload. */
  isKept: boolean
  onTyped: (form: FormData) => void
  onChosen: (form: FormData) => void
  onAccepted: (id: string) => void
}) {
  const [texts] = useState(props.texts)
  const form = useRef<HTMLFormElement>(null)
  const [failure, setFailure] = useState<Failure | null>(null)
  const [isBusy, setBusy] = useState(false)
  // A ref, because a second key press may come before the page is drawn again with `isBusy`.
  const isAsking = useRef(false)
  const ask = useMemo(createAskOnce, [])
  useEffect(() => {
    const wrong = form.current?.querySelector<HTMLElement>('[aria-invalid]')
    unfold(wrong)
    wrong?.focus()
  }, [failure])

  const read = (): FormData => new FormData(form.current ?? undefined)
  const run = async (): Promise<void> => {
    if (isAsking.current) return
    isAsking.current = true
    setBusy(true)
    setFailure(null)
    props.onChosen(read())
    try {
      const { execution_id: id } = await ask<Accepted>('/v1/executions', requestOf(read()))
      props.onAccepted(id)
    } catch (error) {
      setFailure(asFailure(error))
    }
    isAsking.current = false
    setBusy(false)
  }
  const pressed = (event: KeyboardEvent): void => {
    if (event.key !== 'Enter') return
    const runs = event.ctrlKey || event.metaKey
    // A key that is held down starts one execution, not many.
    if (runs || (event.repeat && event.target instanceof HTMLButtonElement)) event.preventDefault()
    if (runs && !event.repeat) form.current?.requestSubmit()
  }
  const changeLanguage = (language: string): void => {
    const source = form.current?.elements.namedItem(SOURCE)
    if (!(source instanceof HTMLTextAreaElement)) return
    if (source.value.trim() === '' || [...EXAMPLES.values()].includes(source.value))
      source.value = EXAMPLES.get(language) ?? ''
  }
  const wrongSource = problemOf(failure, SOURCE)
  return (
    <form
      ref={form}
      class="stack"
      aria-label="Request"
      autocomplete="off"
      onInput={() => props.onTyped(read())}
      onChange={() => props.onChosen(read())}
      onKeyDown={pressed}
      onInvalidCapture={({ target }) => unfold(target)}
      onSubmit={(event) => {
        event.preventDefault()
        void run()
      }}
    >
      {failure !== null && (
        <Problem
          failure={failure}
          hint={failure.code === 'invalid_request' ? 'Correct what is marked below.' : undefined}
        />
      )}
      <Panel
        title="Program"
        class="flush"
        aside={
          <>
            <select
              name="program.language"
              aria-label="Language"
              onChange={(event) => changeLanguage(event.currentTarget.value)}
            >
              {[...EXAMPLES.keys()].map((language) => (
                <option key={language} value={language} selected={language === texts['program.language']}>
                  {language}
                </option>
              ))}
            </select>
            <CopyAs asked={() => ({ run: requestOf(read()) })} />
            <button
              type="button"
              class="button primary"
              aria-disabled={isBusy}
              // The second click of a double click starts nothing.
              onClick={({ detail }) => detail < 2 && form.current?.requestSubmit()}
            >
              {isBusy ? 'Asking' : 'Run'}
            </button>
          </>
        }
      >
        <textarea
          name={SOURCE}
          class="editor mono"
          aria-label="Program"
          aria-describedby="editor-hint"
          aria-invalid={wrongSource !== undefined || undefined}
          rows={18}
          required
          spellcheck={false}
          autocapitalize="off"
          wrap="off"
          defaultValue={texts[SOURCE] ?? ''}
        />
        <p id="editor-hint" class={wrongSource === undefined ? 'output-notes' : 'output-notes field-problem'}>
          {wrongSource ??
            (props.isKept
              ? 'Ctrl or ⌘ with Enter runs it. Tab leaves the editor. This tab keeps the program until it is ' +
                'closed or you sign out; the address has only the choices below.'
              : 'This is too much for the browser to keep: a reload forgets it.')}
        </p>
      </Panel>
      <RequestFields texts={texts} failure={failure} />
    </form>
  )
}

/** Opens what hides a field, so that it can have the focus. */
function unfold(target: EventTarget | null | undefined): void {
  const folded = target instanceof Element ? target.closest('details') : null
  if (folded !== null) folded.open = true
}
