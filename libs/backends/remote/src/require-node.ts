/** Checks Node.js in a foreign image by the agent's first frame, before a program runs. */
import { CofferdamError } from '@cofferdam/contract'
import type { GuestReady } from '@cofferdam/sandbox/guest'
import type { SlotSpec } from '@cofferdam/sandbox/warm'

/** `require` of modules and TypeScript need no flag since 22.18.0 (nodejs/node, CHANGELOG_V22.md). */
const LEAST = [22, 18] as const

/**
 * Throws `capability_missing` if the Node.js for JavaScript or TypeScript is older, because modules would
 * then fail with errors that look like the program's. An agent for another language reports no Node.js and
 * passes.
 */
export function requireNode(
  backend: string,
  { language }: Pick<SlotSpec, 'language'>,
  { languages }: GuestReady,
): void {
  if (language !== 'javascript' && language !== 'typescript') return
  const said = languages[language] ?? languages['javascript']
  if (said === undefined) return
  const [, major, minor] = /^v?(\d+)\.(\d+)\./.exec(said) ?? []
  const isNew = Number(major) > LEAST[0] || (Number(major) === LEAST[0] && Number(minor) >= LEAST[1])
  if (isNew) return
  throw new CofferdamError(
    'capability_missing',
    `${backend}: Node.js there is ${said}, and ${language} needs ${LEAST.join('.')} or newer. Use a template or image that has it, or leave javascript and typescript out of backends.${backend}.languages.`,
  )
}

/**
 * Turns an agent's failure to start its interpreter into `capability_missing`. Returns any other error
 * unchanged.
 */
export function asMissingLanguage(
  backend: string,
  { language }: Pick<SlotSpec, 'language'>,
  error: unknown,
): unknown {
  if (!(error instanceof CofferdamError) || error.details['reason'] !== 'interpreter_not_ready') return error
  const { said } = error.details
  const words = typeof said === 'string' ? said.trim().split('\n').at(-1) : undefined
  return new CofferdamError(
    'capability_missing',
    `${backend}: ${language} does not start there (${(words ?? 'no reason was given').slice(0, 200)}). Use a template or image that has it, or leave it out of backends.${backend}.languages.`,
    { cause: error },
  )
}
