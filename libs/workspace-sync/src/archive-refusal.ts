/** Why an archive was refused: a stable word, the entry's name, and a sentence. */
import { BOUNDS } from '@cofferdam/contract'

const SENTENCES = {
  not_an_archive: 'It is no zip archive, or a part of it is missing.',
  unsupported:
    'It uses a feature that is not supported: encryption, zip64, several disks, or a method besides deflate.',
  too_many_entries: 'It holds too many entries.',
  file_too_large: 'A file is larger than a workspace may hold.',
  total_too_large: 'The files together are larger than a workspace may hold.',
  ratio: 'It unpacks to far more than it holds, as bombs do.',
  overlap: 'Two entries share bytes, as bombs do.',
  bad_name: 'A name is absolute, leads out, or cannot stand on every file system.',
  too_deep: `A file lies in more than ${BOUNDS.workspaceFolders} folders. Move it higher up.`,
  not_a_file: 'An entry is a link, a device, or another thing that is neither file nor folder.',
  duplicate: 'A name is there twice.',
  name_collision: 'Two names are one file on some file systems, or one is the folder of the other.',
  corrupt: 'The bytes of a file are not those that the archive tells of.',
} as const

export type ArchiveRefusalReason = keyof typeof SENTENCES

/** The message contains the entry's name as JSON, truncated. */
export class ArchiveRefusal extends Error {
  readonly reason: ArchiveRefusalReason
  readonly entry: string | null

  constructor(reason: ArchiveRefusalReason, entry: string | null) {
    const where = entry === null ? '' : ` Entry: ${JSON.stringify(entry.slice(0, 200))}.`
    super(`The archive is refused. ${SENTENCES[reason]}${where}`)
    this.name = 'ArchiveRefusal'
    this.reason = reason
    this.entry = entry
  }
}
