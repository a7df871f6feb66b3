/** Keeps the end of what a program printed, where frameworks put their summaries. */

/** A summary is some lines long; 64 KiB hold it and the last messages before it. */
const MAX_CHARS = 64 * 1024

export interface PrintedTail {
  add(stream: 'stdout' | 'stderr', text: string): void
  /** stdout, then stderr. */
  text(): string
}

/** An empty tail. */
export function createPrintedTail(): PrintedTail {
  const tails = { stdout: '', stderr: '' }
  return {
    add(stream, text) {
      tails[stream] = (tails[stream] + text).slice(-MAX_CHARS)
    },
    text: () => `${tails.stdout}\n${tails.stderr}`,
  }
}
