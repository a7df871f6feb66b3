import { execFileSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import type { Program, ProgramFile, Progress } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openLab, PYTHON, type Agent, type Lab } from './start-agent.ts'

let lab: Lab
beforeAll(async () => {
  lab = await openLab()
})
afterAll(() => lab.close())

const python = (source: string): Program => ({ type: 'script', language: 'python', source })
const script = (language: 'javascript' | 'typescript' | 'bash', source: string): Program => ({
  type: 'script',
  language,
  source,
})

async function reported(agent: Agent, program: Program, files: ProgramFile[] = [], keepInterpreter = false) {
  const heard: Progress[] = []
  await agent.session.write(files)
  const ran = await agent.run(
    program,
    { onProgress: (progress) => void heard.push(progress) },
    {},
    { keepInterpreter },
  )
  return { heard, ran }
}

const file = (path: string, text: string): ProgramFile => ({ path, bytes: Buffer.from(text) })

describe('a progress report', () => {
  it.each(['python', 'none'] as const)(
    'arrives from Python if the agent’s waiting language is %s',
    async (waits) => {
      const agent = await lab.start(waits)
      const source = 'import cofferdam\ncofferdam.progress(0.4, "fitting é")\n"a value"'
      const { heard, ran } = await reported(agent, python(source))
      expect(ran).toMatchObject({ stderr: '', exit: { exitCode: 0, valueJson: '"a value"' } })
      expect(heard).toEqual([{ fraction: 0.4, message: 'fitting é' }])
      agent.session.close()
    },
  )

  it.each([
    ['javascript', "const { progress } = require('cofferdam'); progress(0.25, 'a'); module.exports = 7"],
    ['javascript', "import { progress } from 'cofferdam'; progress(0.25, 'a'); export default 7"],
    [
      'typescript',
      "import { progress } from 'cofferdam'\nconst part: number = 0.25\nprogress(part, 'a')\nexport default 7",
    ],
    [
      'typescript',
      "import { progress } from 'cofferdam'\nenum Part { One = 0.25 }\nprogress(Part.One, 'a')\nexport default 7",
    ],
  ] as const)('arrives from %s: %s', async (language, source) => {
    for (const waits of [language, 'none'] as const) {
      const agent = await lab.start(waits)
      const { heard, ran } = await reported(agent, script(language, source))
      expect(ran).toMatchObject({ stderr: '', exit: { exitCode: 0, valueJson: '7' } })
      expect(heard).toEqual([{ fraction: 0.25, message: 'a' }])
      agent.session.close()
    }
  })

  it('arrives from bash and shell commands by a separate command', async () => {
    const agent = await lab.start('none')
    const shell = { type: 'command', shell: 'cofferdam-progress .5 half  of "it"; echo done' } as const
    for (const program of [script('bash', shell.shell), shell]) {
      const { heard, ran } = await reported(agent, program)
      expect(ran).toMatchObject({ stdout: 'done\n', stderr: '', exit: { exitCode: 0 } })
      expect(heard).toEqual([{ fraction: 0.5, message: 'half of it' }])
    }
    agent.session.close()
  })

  it('arrives from interpreters that a session keeps', async () => {
    const agent = await lab.start('none', { cell: true })
    for (const n of [1, 2]) {
      const inPython = await reported(
        agent,
        python(`import cofferdam\ncofferdam.progress(0.${n})\n${n}`),
        [],
        true,
      )
      expect(inPython.heard).toEqual([{ fraction: n / 10, message: '' }])
      expect(inPython.ran.exit).toMatchObject({ exitCode: 0, valueJson: String(n) })
      const inNode = await reported(
        agent,
        script('javascript', `require('cofferdam').progress(0.${n}); ${n}`),
        [],
        true,
      )
      expect(inNode.ran).toMatchObject({ stderr: '', exit: { exitCode: 0, valueJson: String(n) } })
      expect(inNode.heard).toEqual([{ fraction: n / 10, message: '' }])
    }
    agent.session.close()
  })

  it('arrives about ten times a second in a flood, and always as the last one', async () => {
    const agent = await lab.start('python')
    const source = [
      'import cofferdam, time',
      'end = time.monotonic() + 1',
      'n = 0',
      'while time.monotonic() < end:',
      '    n += 1; cofferdam.progress(0.5, n)',
      'cofferdam.progress(1, "last")',
    ].join('\n')
    const startedAt = performance.now()
    const { heard } = await reported(agent, python(source))
    // A second, plus the time that the agent still needs on a busy machine.
    const seconds = (performance.now() - startedAt) / 1000
    expect(heard.length).toBeGreaterThan(1)
    expect(heard.length).toBeLessThanOrEqual(10 * seconds + 2)
    expect(heard.at(-1)).toEqual({ fraction: 1, message: 'last' })
    agent.session.close()
  })

  it('comes from a module that the program’s own module of that name hides', async () => {
    const agent = await lab.start('none')
    const own = await reported(agent, python('import cofferdam\nprint(cofferdam.mine)'), [
      file('cofferdam.py', 'mine = 1'),
    ])
    expect(own.ran).toMatchObject({ stdout: '1\n', stderr: '' })
    const js = await reported(agent, script('javascript', "console.log(require('cofferdam').mine)"), [
      file('node_modules/cofferdam/index.js', 'exports.mine = 2'),
    ])
    expect(js.ran).toMatchObject({ stdout: '2\n', stderr: '' })
    agent.session.close()
  })

  it('is possible if any file contains the word, and otherwise leaves no trace', async () => {
    const agent = await lab.start('none')
    const helper = await reported(agent, python('import steps'), [
      file('steps.py', 'import cofferdam\ncofferdam.progress(0.7)'),
    ])
    expect(helper.heard).toEqual([{ fraction: 0.7, message: '' }])
    agent.session.close()
    const plain = await lab.start('none')
    const look =
      'import sys, os\nname = "coffer" + "dam"\nprint([p for p in sys.path if p.endswith("-lib")], sorted(e for e in os.environ if name.upper() in e))\nprint(os.path.exists("/proc/self/fd/199"))'
    const { ran } = await reported(plain, python(look))
    expect(ran.stdout).toBe('[] []\nFalse\n')
    plain.session.close()
  })

  it('adds no variable or descriptor that a child inherits', async () => {
    const agent = await lab.start('none')
    const source = [
      'import cofferdam, os, subprocess, sys',
      'cofferdam.progress(0.1)',
      'print(sorted(os.environ))',
      'sys.stdout.flush()',
      'subprocess.run(["ls", "/proc/self/fd"])',
    ].join('\n')
    const { ran } = await reported(agent, python(source))
    expect(ran.stdout).not.toMatch(/COFFERDAM|199/i)
    agent.session.close()
  })

  it.each([
    ['a fraction out of range', 'os.write(199, b"P7 a\\n")', [{ fraction: 1, message: 'a' }]],
    ['no number', 'os.write(199, b"Pnan a\\n")', []],
    ['control characters', 'os.write(199, b"P0.5 a\\x1b[2Jb\\n")', [{ fraction: 0.5, message: 'a [2Jb' }]],
    ['a line that is too long', 'os.write(199, b"P0.5 " + b"x" * 4000 + b"\\n")', []],
    ['no word of ours', 'os.write(199, b"Z" * 100)', []],
    [
      'a value in front',
      'os.write(199, b"V\\x01\\x00\\x00\\x001P0.5 a\\n")',
      [{ fraction: 0.5, message: 'a' }],
    ],
    ['half a line', 'os.write(199, b"P0.5 a")', []],
  ])('still works if a program writes %s', async (_what, line, expected) => {
    const agent = await lab.start('none')
    const { heard, ran } = await reported(agent, python(`import cofferdam, os\n${line}`))
    expect(heard).toEqual(expected)
    expect(ran.exit.exitCode).toBe(0)
    const after = await reported(agent, python('print("alive")'))
    expect(after.ran.stdout).toBe('alive\n')
    agent.session.close()
  })

  it('has its message cut, at more characters than are shown', async () => {
    const agent = await lab.start('none')
    const { heard } = await reported(agent, python('import cofferdam\ncofferdam.progress(0.5, "é" * 5000)'))
    expect(heard).toEqual([{ fraction: 0.5, message: 'é'.repeat(240) }])
    agent.session.close()
  })

  it('does nothing outside of a sandbox', () => {
    const folder = fileURLToPath(new URL('../../agent/', import.meta.url))
    const inPython = ['-c', 'import cofferdam; cofferdam.progress(0.5, "x"); print("ok")']
    const env = { PYTHONPATH: `${folder}python-lib`, PYTHONDONTWRITEBYTECODE: '1' }
    expect(execFileSync(PYTHON, inPython, { env }).toString()).toBe('ok\n')
    const inNode = ['-e', `require('${folder}node-lib/cofferdam.cjs').progress(0.5, 'x'); console.log('ok')`]
    expect(execFileSync(process.execPath, inNode).toString()).toBe('ok\n')
    expect(execFileSync(`${folder}bin/cofferdam-progress`, ['0.5', 'x']).toString()).toBe('')
  })
})
