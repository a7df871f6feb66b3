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
    expect(strayText('libs/x.ts', `// ${word}`)).toEqual([])
  })

  it('accepts long tables, code blocks and bare links', () => {
    const word = 'word '.repeat(30)
    expect(strayText('docs/x.md', `| ${word}|`)).toEqual([])
    expect(strayText('docs/x.md', `\`\`\`sh\n${word}\n\`\`\`\nfine`)).toEqual([])
    expect(strayText('docs/x.md', `- https://example.com/${'x'.repeat(120)}`)).toEqual([])
    expect(strayText('docs/x.md', `\`\`\`sh\nls\n\`\`\`\n${word}`)).toHaveLength(1)
  })
})
