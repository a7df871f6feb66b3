/** The description of the tool that a model reads. */
import { spokenList } from './languages.ts'
import type { Settings } from './options.ts'

/** Longer descriptions cost tokens in every request, and models follow them less. */
const DESCRIPTION_MAX = 600

/** At most 600 characters. Throws TypeError if `notes` are too long for that. */
export function describe(settings: Settings): string {
  const { languages, notes = '' } = settings
  const text = [
    `Run ${spokenList(languages)} in an isolated sandbox and get its output and the value of the last ` +
      'expression. Print what you want to see.',
    `${limitsText(settings)}.`,
    stateText(settings),
    'Images that you save in the work directory are shown to you; other files in out/ are kept.',
    'Code that fails is a normal result.',
    notes,
  ]
    .filter((part) => part !== '')
    .join(' ')
  if (text.length > DESCRIPTION_MAX) {
    const room = notes.length - (text.length - DESCRIPTION_MAX)
    throw new TypeError(`notes: expected at most ${room} characters`)
  }
  return text
}

function limitsText({ hardTimeoutMs, limits, network }: Settings): string {
  const reach =
    network === 'none'
      ? 'no network'
      : network === 'public'
        ? 'public internet'
        : `network only to ${network.allow.slice(0, 5).join(', ').slice(0, 120)}`
  return `Limits: ${hardTimeoutMs / 1000} s, ${limits.memory_mib ?? 256} MiB, ${reach}`
}

function stateText({ session }: Settings): string {
  if (session === undefined) return 'Every call starts from nothing.'
  const hasPrefix = typeof session === 'object' && 'prefix' in session
  if (hasPrefix) return 'Calls with the same session share files and variables; others start from nothing.'
  const scope = typeof session === 'object' ? session.scope : undefined
  if (scope === 'none') return 'Every call starts from nothing.'
  return `Files${scope === 'files' ? '' : ' and variables'} stay for the next call.`
}
