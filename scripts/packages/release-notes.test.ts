import { describe, expect, it } from 'vitest'
import { newestRelease, obstacles } from './release-notes.ts'

describe('the newest release of a changelog', () => {
  it('is the first section, with its version and notes', () => {
    const changelog = '# Changelog\n\nIntro.\n\n## Unreleased: 0.2.0\n\n- New.\n\n## 0.1.0\n\n- Old.\n'
    expect(newestRelease(changelog)).toEqual({ version: '0.2.0', isUnreleased: true, notes: '- New.' })
    expect(newestRelease('# C\n\n## 1.0.0\n\n- It.\n')).toMatchObject({ isUnreleased: false })
  })

  it.each(['# Changelog\n', '# C\n\n## Unreleased\n', '# C\n\n## 1.0\n'])('is missing in %j', (text) => {
    expect(() => newestRelease(text)).toThrow('CHANGELOG.md: expected')
  })
})

describe('a release', () => {
  const ready = { version: '1.0.0', isUnreleased: false, notes: '- It.' }

  it('can be published with notes and from a clean tree', () => {
    expect(obstacles(ready, [])).toEqual([])
  })

  it.each([
    ['that is called unreleased', { ...ready, isUnreleased: true }, [], 'calls 1.0.0 unreleased'],
    ['without notes', { ...ready, notes: '' }, [], 'no notes for 1.0.0'],
    ['from changed files', ready, ['a.ts'], 'not committed: a.ts'],
  ])('cannot be published %s', (_name, release, changed, why) => {
    expect(obstacles(release, changed)).toEqual([expect.stringContaining(why)])
  })
})
