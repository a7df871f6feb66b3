/** Version and notes of the release that CHANGELOG.md describes first. They are written nowhere else. */

export interface Release {
  version: string
  /** Whether the heading says that it is not released yet. */
  isUnreleased: boolean
  /** Markdown without the heading. */
  notes: string
}

const HEADING = /^## (Unreleased: )?(\d+\.\d+\.\d+)$/

/** Throws for a changelog whose first section names no version. */
export function newestRelease(changelog: string): Release {
  const [, first = ''] = changelog.split(/^(?=## )/m)
  const [heading = '', ...lines] = first.split('\n')
  const [, unreleased, version] = HEADING.exec(heading) ?? []
  if (version === undefined)
    throw new Error(`CHANGELOG.md: expected "## Unreleased: 1.2.3" or "## 1.2.3" first, got "${heading}".`)
  return { version, isUnreleased: unreleased !== undefined, notes: lines.join('\n').trim() }
}

/** Why this release cannot be published. Empty when it can. */
export function obstacles(
  { version, isUnreleased, notes }: Release,
  changedFiles: readonly string[],
): string[] {
  return [
    ...(isUnreleased ? [`CHANGELOG.md calls ${version} unreleased. Write "## ${version}" there.`] : []),
    ...(notes === '' ? [`CHANGELOG.md has no notes for ${version}.`] : []),
    ...(changedFiles.length > 0 ? [`Files are not committed: ${changedFiles.slice(0, 5).join(', ')}.`] : []),
  ]
}
