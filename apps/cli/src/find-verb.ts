/** Which of a command's verbs is meant, such as `list` of `cofferdam tenant list`. */
import { nearestName } from '@cofferdam/config'
import { UsageError } from './usage-error.ts'

/** Throws a usage error that names the nearest one. */
export function findVerb<Verb>(command: string, verbs: Readonly<Record<string, Verb>>, name: string): Verb {
  const verb = Object.hasOwn(verbs, name) ? verbs[name] : undefined
  if (verb !== undefined) return verb
  const nearest = nearestName(name, Object.keys(verbs))
  throw new UsageError(
    `cofferdam ${command} does not know ${JSON.stringify(name)}.${nearest === null ? '' : ` Did you mean ${nearest}?`}`,
  )
}
