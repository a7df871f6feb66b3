import { standing, type Status, type Tone } from '../words/endings.ts'

/** A coloured dot with a word: colour alone says nothing to many people. */
export function ToneDot({ tone, children }: { tone: Tone; children: string }) {
  return (
    <span class={`standing tone-${tone}`}>
      <span class="dot" aria-hidden="true" />
      {children}
    </span>
  )
}

/** The status of an execution, or its ending, as a dot with a word. */
export function StandingDot({ status, ending }: { status: Status; ending: string | null }) {
  const { words, tone } = standing(status, ending)
  return <ToneDot tone={tone}>{words}</ToneDot>
}
