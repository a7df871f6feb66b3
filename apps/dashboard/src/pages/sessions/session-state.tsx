import type { Operations } from '@cofferdam/client'
import { ToneDot } from '../../parts/standing-dot.tsx'

export type State = Operations['getSession']['result']['state']

const SHOWN = {
  idle: { tone: 'ok', word: 'Idle' },
  running: { tone: 'busy', word: 'Running' },
  paused: { tone: 'wait', word: 'Paused' },
} as const satisfies Record<State, object>

/** What a session does now. */
export function SessionState({ state }: { state: State }) {
  const { tone, word } = SHOWN[state]
  return <ToneDot tone={tone}>{word}</ToneDot>
}
