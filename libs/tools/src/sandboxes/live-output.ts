/**
 * Passes a command's output on while it runs, and makes it complete at the end: the live stream may have
 * gaps when a command prints faster than the fleet can show, but the result has everything.
 */
import type { ExecutionEvent } from '@cofferdam/client'

export type OutputListener = (stream: 'stdout' | 'stderr', text: string) => void

export interface LiveOutput {
  take(event: ExecutionEvent): void
  /** Passes on the part of the whole output that the listener has not had yet. */
  complete(whole: { stdout: string; stderr: string }): void
}

/** The listener gets each stream completely and in order. If it throws, the command's promise rejects. */
export function createLiveOutput(listener: OutputListener | undefined): LiveOutput {
  const passed = { stdout: 0, stderr: 0 }
  // Output after a gap is held back, because its position is known only once the whole output is.
  let hasGap = false
  return {
    take(event) {
      if (event.type === 'notice') hasGap ||= passed.stdout + passed.stderr > 0
      if (event.type !== 'output' || listener === undefined || hasGap) return
      passed[event.stream] += event.text.length
      listener(event.stream, event.text)
    },
    complete(whole) {
      for (const stream of ['stdout', 'stderr'] as const) {
        const rest = whole[stream].slice(passed[stream])
        if (rest !== '') listener?.(stream, rest)
      }
    },
  }
}
