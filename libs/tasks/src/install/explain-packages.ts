/**
 * Explains a failure by what the package proxy and the egress refused, because package managers print little
 * about it.
 */
import type { PackagesSeen } from './package-access.ts'

/** The most names in one sentence. The report lists every refused package. */
const MAX_NAMED = 10

/**
 * `usual` is the sentence that every failed program gets. The result is empty when there is nothing to
 * explain.
 */
export function explainPackages(
  { packages, refused, narrowed, mirrorFailures, refusals }: PackagesSeen,
  usual: string | null = null,
): string {
  const fetched = new Set(packages.map(({ name }) => name))
  const sentences = [
    list(
      'Refused were',
      refused.map(({ name, reason }) => `${name} (${reason})`),
    ),
    usual,
    // "No matching distribution found for demo==2.0" does not say that a rule hides version 2.0.
    list(
      "The tenant's rules left out versions of",
      narrowed.filter(({ name }) => !fetched.has(name)).map(({ name, rule }) => `${name} (allowed: ${rule})`),
    ),
    list('Ask the operator, as', mirrorFailures),
    list(
      'Not reached were',
      // The target of an invalid request can be anything, even a secret. Package rules are reported above.
      refusals
        .filter(({ rule }) => rule !== 'invalid_request' && rule !== 'packages')
        .map(({ target, reason }) => `${target} (${reason})`),
    ),
  ]
  return sentences.filter((sentence) => sentence !== null && sentence !== '').join(' ')
}

function list(start: string, entries: readonly string[]): string | null {
  const named = [...new Set(entries)].slice(0, MAX_NAMED)
  return named.length === 0 ? null : `${start} ${named.join(', ')}.`
}
