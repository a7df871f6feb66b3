/**
 * The version of the records in Redis, so that builds of two versions can share a queue.
 *
 *   stored request   carries its version as `$v`; without one it is of version 1
 *   need of workers  has the word `records=<version>` from version 2 on, and a worker offers the words of all
 *                    versions that it reads, so the scheduler gives a record only to a worker that reads it
 *
 * Raise RECORD_VERSION with every change that a build of the previous version would misread. A build reads
 * all earlier versions.
 */
import { CofferdamError } from '@cofferdam/contract'

export const RECORD_VERSION = 1

/** Words of an offer: one for each version from 2 on that a build of `version` reads. */
export const readableWords = (version: number): string[] =>
  Array.from({ length: version - 1 }, (_, n) => `records=${n + 2}`)

/** Word that a need has for records of this version, as a list to append. Empty for version 1. */
export const neededWord = (version: number): string[] => (version > 1 ? [`records=${version}`] : [])

/** The version that a need asks for. */
export const versionOfNeed = (need: string | null): number =>
  Number(/(?:^|,)records=(\d+)/.exec(need ?? '')?.[1] ?? 1)

/** Adds the version to a request before it is stored. */
export const withVersion = <T extends object>(request: T, version: number): T =>
  version > 1 ? { $v: version, ...request } : request

/**
 * Removes the version from a stored request. Throws `record_too_new` if this build cannot read that version.
 */
export function withoutVersion<T extends object>(stored: T): T {
  if (!('$v' in stored)) return stored
  const { $v: version, ...request } = stored as T & { $v: unknown }
  if (Number(version) > RECORD_VERSION)
    throw new CofferdamError(
      'record_too_new',
      'The execution was sent by a newer version of Cofferdam: its record has version ' +
        `${Number(version)}, and this process reads up to ${RECORD_VERSION}.`,
      { details: { record_version: Number(version), reads: RECORD_VERSION } },
    )
  return request as unknown as T
}
