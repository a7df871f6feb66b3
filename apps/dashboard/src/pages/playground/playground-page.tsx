import { useEffect, useRef, useState } from 'preact/hooks'
import { address, go, queryValue, withQuery, type Query } from '../../address/address.ts'
import { keepDraft, keptDraft } from '../../address/kept-draft.ts'
import { isAdmin, mayChange, session, type Session } from '../../api/session.ts'
import { PageHead } from '../../parts/page-head.tsx'
import { Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { textOf } from '../execution/rerun/edit-of.ts'
import { RequestForm } from './request-form.tsx'
import { choicesIn, EXAMPLES, KEPT_TEXTS, queryOf, textsOf } from './request-of.ts'
import { RunView } from './run-view.tsx'

/** The form for a program and its settings, and its run beside it. */
export function PlaygroundPage() {
  const who = session.value
  return (
    <>
      <PageHead title="Playground" />
      {mayChange.value && who !== null && who !== undefined ? (
        <Playground who={who} />
      ) : (
        <div class="table-frame">
          <Empty title="This key may only read.">
            To run programs, sign in with a key that may change things.
          </Empty>
        </div>
      )}
    </>
  )
}

function Playground({ who }: { who: Session }) {
  const [kept] = useState(() => keptDraft(who.key_id))
  const typed = useRef<Readonly<Record<string, string>>>(kept?.texts ?? {})
  const [isKept, setKept] = useState(true)
  const [started, setStarted] = useState<string | null>(null)
  // The form starts anew when the choices in the address differ from its own: after back, forward, or a
  // change of the tenant at the top of the page.
  const choices = choicesIn(address.value.searchParams)
  const shown = useRef({ choices, round: 0 })
  if (shown.current.choices !== choices) shown.current = { choices, round: shown.current.round + 1 }

  // Links in the navigation contain no choices. A person who returns by such a link gets the choices that the
  // browser kept.
  useEffect(() => {
    const isChosen = /(?:^|&)(?!tenant=)./.test(choices) || queryValue('run') !== null
    if (kept === null || isChosen) return
    const query: Query = Object.fromEntries(new URLSearchParams(kept.choices))
    go(withQuery({ ...query, tenant: queryValue('tenant') }), 'replace')
  }, [])

  const keep = (form: FormData): void => {
    typed.current = Object.fromEntries([...KEPT_TEXTS, 'env'].map((name) => [name, textOf(form, name)]))
    const texts = Object.fromEntries(KEPT_TEXTS.map((name) => [name, textOf(form, name)]))
    setKept(keepDraft(who.key_id, { choices: shown.current.choices, texts }))
  }
  const choose = (form: FormData): void => {
    go(withQuery({ ...queryOf(form), ...(isAdmin.value ? {} : { tenant: queryValue('tenant') }) }), 'replace')
    shown.current.choices = choicesIn(address.value.searchParams)
    keep(form)
  }
  const accepted = (id: string): void => {
    setStarted(id)
    go(withQuery({ run: id }))
  }

  const chosen = textsOf(choices)
  const example = EXAMPLES.get(chosen['program.language'] ?? '') ?? ''
  const owner = who.tenant_id === null ? {} : { tenant_id: who.tenant_id }
  const run = queryValue('run')
  return (
    <div class="playground">
      <RequestForm
        key={shown.current.round}
        texts={{ 'program.source': example, ...chosen, ...typed.current, ...owner }}
        isKept={isKept}
        onTyped={keep}
        onChosen={choose}
        onAccepted={accepted}
      />
      {run === null ? (
        <Panel title="Run">
          <Empty title="Nothing ran yet.">The output appears here while the program runs.</Empty>
        </Panel>
      ) : (
        <RunView key={run} id={run} isNew={run === started} />
      )}
    </div>
  )
}
