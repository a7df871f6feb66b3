import { describe, expect, it } from 'vitest'
import { strayText } from './stray-text.ts'

const at = (...parts: string[]): string => parts.join('')

describe('strayText', () => {
  it('reports paths of one machine, with file and line', () => {
    expect(strayText('docs/a.md', at('fine\nsee /', 'work/main'))).toEqual([
      'docs/a.md:2: a path of one machine',
    ])
    expect(strayText('docs/a.md', at('cd /', 'root/x'))).toHaveLength(1)
  })

  it('ignores such a path inside a longer path', () => {
    expect(strayText('libs/x.ts', at("join(base, '.data/", "work/x')"))).toEqual([])
    expect(strayText('libs/x.ts', at('`/proc/${pid}/', 'root/tmp`'))).toEqual([])
  })

  it('reports hosts of registries, and addresses in the lockfile', () => {
    expect(strayText('infra/Dockerfile', at('curl https://registry.', 'npmjs.org/x'))).toHaveLength(1)
    expect(strayText('package-lock.json', at('"resolved": "', 'https://any/x.tgz"'))).toHaveLength(1)
  })

  it('reports unfinished work and switched-off tests in code, but not in prose', () => {
    expect(strayText('libs/x.test.ts', at('describe', ".skip('x', () => {})"))).toHaveLength(1)
    expect(strayText('libs/x.ts', at('// TO', 'DO: later'))).toHaveLength(1)
    expect(strayText('libs/x.test.ts', "describe.skipIf(!docker)('x', () => {})")).toEqual([])
    expect(strayText('docs/x.md', at('a TO', 'DO list'))).toEqual([])
  })

  it('reports lines of more than 110 columns in Markdown pages', () => {
    const word = 'word '.repeat(22)
    expect(strayText('docs/x.md', `fine\n${word}`)).toEqual([])
    expect(strayText('docs/x.md', `fine\n${word}!`)).toEqual(['docs/x.md:2: longer than 110 columns'])
    expect(strayText('libs/queue/README.md', `- ${word}`)).toHaveLength(1)
  })

  it('reports comments of more than 110 columns, except for drawings', () => {
    const word = 'word '.repeat(22)
    expect(strayText('libs/x.ts', `fine\n// ${word}`)).toEqual(['libs/x.ts:2: longer than 110 columns'])
    for (const [path, mark] of [
      ['a.ts', '/**'],
      ['a.ts', ' *'],
      ['a.py', '#'],
      ['a.lua', '--'],
      ['a.yaml', '  #'],
    ])
      expect([path, strayText(`libs/${path}`, `${mark} ${word}`).length]).toEqual([path, 1])
    expect(strayText('libs/x.ts', `const x = '${word}'`)).toEqual([])
    expect(strayText('libs/x.ts', ` *   a ──▶ b    ${word}`)).toEqual([])
    expect(strayText('libs/x.ts', `// https://example.com/${'x'.repeat(120)}`)).toEqual([])
  })

  it('reports sources of more than 250 lines that are no tests and no tables', () => {
    const text = (lines: number): string => 'line\n'.repeat(lines)
    expect(strayText('libs/x/src/a.ts', text(250))).toEqual([])
    expect(strayText('libs/x/src/a.ts', text(251))).toEqual(['libs/x/src/a.ts: more than 250 lines'])
    expect(strayText('libs/x/agent/a.py', text(251))).toHaveLength(1)
    for (const path of ['libs/x/src/a.test.ts', 'libs/x/test/a.ts', 'libs/store/src/tables.ts', 'bench/a.ts'])
      expect([path, strayText(path, text(251))]).toEqual([path, []])
  })

  it('accepts long tables, code blocks and bare links', () => {
    const word = 'word '.repeat(30)
    expect(strayText('docs/x.md', `| ${word}|`)).toEqual([])
    expect(strayText('docs/x.md', `\`\`\`sh\n${word}\n\`\`\`\nfine`)).toEqual([])
    expect(strayText('docs/x.md', `- https://example.com/${'x'.repeat(120)}`)).toEqual([])
    expect(strayText('docs/x.md', `\`\`\`sh\nls\n\`\`\`\n${word}`)).toHaveLength(1)
  })
})
