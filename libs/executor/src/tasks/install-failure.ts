/** Why an install failed, as far as the package proxy and the way out know: package managers leave out most of it. */
import type { PackagesSeen } from './package-access.ts'

/** More of one kind say nothing more; the report has every refused package. */
const MAX_NAMED = 10

/** `usual` is what is said of every program that failed. */
export function installFailure(
  { packages, refused, narrowed, mirrorFailures, refusals }: PackagesSeen,
  usual: string | null,
): { reason: 'packages_refused' | null; text: string } {
  const fetched = new Set(packages.map(({ name }) => name))
  const sentences = [
    list(
      'Refused were',
      refused.map(({ name, reason }) => `${name} (${reason})`),
    ),
    usual,
    // "No matching distribution found for demo==2.0" does not say that there is a 2.0, which a rule keeps back.
    list(
      "The tenant's rules left out versions of",
      narrowed.filter(({ name }) => !fetched.has(name)).map(({ name, rule }) => `${name} (allowed: ${rule})`),
    ),
    list('Ask the operator, as', mirrorFailures),
    list(
      'Not reached were',
      // What is no address may hold anything; the refusals of the package host are the packages above.
      refusals
        .filter(({ rule }) => rule !== 'invalid_request' && rule !== 'packages')
        .map(({ target, reason }) => `${target} (${reason})`),
    ),
  ]
  return {
    reason: refused.length > 0 ? 'packages_refused' : null,
    text: sentences.filter((sentence) => sentence !== null && sentence !== '').join(' '),
  }
}

function list(start: string, entries: readonly string[]): string | null {
  const named = [...new Set(entries)].slice(0, MAX_NAMED)
  return named.length === 0 ? null : `${start} ${named.join(', ')}.`
}
