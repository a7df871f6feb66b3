/** Writes artifacts below a directory of the user's. Their names come from an untrusted program. */
import { mkdir, open, realpath } from 'node:fs/promises'
import { constants } from 'node:fs'
import path from 'node:path'
import { CofferdamError, pathSchema, type BlobStore } from '@cofferdam/contract'

export type SaveArtifact = (name: string, bytes: Uint8Array) => Promise<void>

/** Returns a function that writes one artifact below `directory` (made when absent). */
export async function artifactSaver(directory: string): Promise<SaveArtifact> {
  await mkdir(directory, { recursive: true })
  const top = await realpath(directory)
  return async (name, bytes) => {
    if (!pathSchema.safeParse(name).success)
      throw new CofferdamError(
        'internal',
        `The artifact name ${JSON.stringify(name)} leaves its directory; not written.`,
      )
    const target = path.join(top, name)
    await mkdir(path.dirname(target), { recursive: true })
    // A symbolic link that was there before must not lead the program's bytes out of the directory.
    const parent = await realpath(path.dirname(target))
    if (parent !== top && !parent.startsWith(top + path.sep))
      throw new CofferdamError('internal', `${target} leads out of ${top} by a symbolic link; not written.`)
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW
    await using file = await open(target, flags, 0o644)
    await file.writeFile(bytes)
  }
}

/** The whole of one blob. Throws `not_found`. */
export async function readBlob(blobs: BlobStore, ref: string): Promise<Uint8Array> {
  const found = await blobs.read(ref)
  if (found === null) throw new CofferdamError('not_found', `The blob ${ref} is gone.`)
  return found.bytes
}
