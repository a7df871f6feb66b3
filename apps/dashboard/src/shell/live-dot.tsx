import { connection } from '../api/call.ts'

const WORDS = { unknown: 'Connecting', live: 'Live', lost: 'No connection' } as const
const TONES = { unknown: 'wait', live: 'ok', lost: 'bad' } as const

/** Whether what is shown is fresh. */
export function LiveDot() {
  const state = connection.value
  return (
    <span class={`live-dot standing tone-${TONES[state]}`} role="status">
      <span class="dot" aria-hidden="true" />
      <span class="live-word">{WORDS[state]}</span>
    </span>
  )
}
