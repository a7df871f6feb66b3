import type { ExecutionState, ExecutionWhy } from '@cofferdam/client'
import { Panel } from '../../parts/panel.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { When } from '../../parts/when.tsx'
import { withoutEscapes } from './output/ansi.ts'
import { useWhy } from './use-execution.ts'

type Fact = ExecutionWhy['facts'][number]

/** The questions, in the order in which one asks them. */
const QUESTIONS: ReadonlyArray<readonly [Fact['question'], string]> = [
  ['waits', 'Why it waits'],
  ['refused', 'Why it was refused'],
  ['ending', 'Why it ended so'],
  ['backend', 'Why it ran there'],
]

/** The facts that the API gives. The command line and agents get the same ones. */
export function WhyPanel({ state, notices }: { state: ExecutionState; notices: readonly string[] }) {
  const why = useWhy(state)
  const { result } = state
  return (
    <Panel title="Why">
      <ResourceView of={why} what="the reasons" lines={2}>
        {({ facts }) => (
          <>
            <ErrorMessage message={withoutEscapes(result?.error_message ?? '')} facts={facts} />
            {facts.length === 0 && <p class="muted">It runs. Nothing holds it up.</p>}
            {QUESTIONS.map(([question, title]) => (
              <FactList
                key={question}
                title={title}
                facts={facts.filter((one) => one.question === question)}
              />
            ))}
          </>
        )}
      </ResourceView>
      {notices.length > 0 && (
        <ul class="notices" aria-label="Notices">
          {notices.map((notice, index) => (
            <li key={index}>{withoutEscapes(notice)}</li>
          ))}
        </ul>
      )}
    </Panel>
  )
}

/** Characters of the message that are looked for in the facts. A fact may quote a long message cut short. */
const COMPARED = 60

/** What went wrong, unless a fact says it in the same words. */
function ErrorMessage({ message, facts }: { message: string; facts: readonly Fact[] }) {
  const isSaid = facts.some(({ text }) => withoutEscapes(text).includes(message.slice(0, COMPARED).trim()))
  return message === '' || isSaid ? null : <pre class="error-message">{message}</pre>
}

function FactList({ title, facts }: { title: string; facts: readonly Fact[] }) {
  if (facts.length === 0) return null
  return (
    <div class="why-group">
      <h3>{title}</h3>
      <ol>
        {facts.map((fact, index) => (
          <li key={index}>
            <p>
              {withoutEscapes(fact.text)} <code class="muted">{fact.code}</code>
            </p>
            {(fact.since !== undefined || fact.until !== undefined) && (
              <p class="muted small">
                {fact.since !== undefined && (
                  <>
                    since <When at={fact.since} />{' '}
                  </>
                )}
                {fact.until !== undefined && (
                  <>
                    until <When at={fact.until} />
                  </>
                )}
              </p>
            )}
            {fact.action !== undefined && <p class="action">{withoutEscapes(fact.action)}</p>}
          </li>
        ))}
      </ol>
    </div>
  )
}
