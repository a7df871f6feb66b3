/** Builds the full image as an operator does, and checks its tools. The slim image says what it lacks. */
import { execFile } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { imageName, type ExecutionResult } from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startFleet, type Fleet } from '../fleet.ts'

const BUILD_MS = 20 * 60_000

const COMMANDS = {
  which: 'which bash',
  git: 'git init -q r && cd r && echo a >f && git add f && git -c user.name=a -c user.email=a@b commit -qm one && git log --oneline | grep one',
  curl: 'echo hello >f && curl -s file://$PWD/f | grep hello',
  jq: `echo '{"a":[1,2]}' | jq -e '.a[1] == 2'`,
  ps: 'ps -o comm= | grep bash',
  zip: 'echo a >f && zip -q f.zip f && rm f && unzip -q f.zip && grep a f',
  file: 'printf "\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR" >f && file f | grep PNG',
  bc: 'test "$(echo "2^10" | bc)" = 1024',
  make: "printf 'all:\\n\\techo made\\n' >Makefile && make -s | grep made",
  perl: `perl -MList::Util=sum -e 'exit(sum(1, 2) == 3 ? 0 : 1)'`,
  node: 'node -p 1+1 | grep 2',
}

const MODULES = {
  requests: 'import requests\nassert requests.Request("GET", "http://x").prepare().url == "http://x/"',
  matplotlib:
    'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig("p.png")\nassert open("p.png", "rb").read(4) == b"\\x89PNG"',
  yaml: 'import yaml\nassert yaml.safe_load("a: [1]") == {"a": [1]}',
  openpyxl:
    'import openpyxl\nw = openpyxl.Workbook()\nw.active["A1"] = 3\nw.save("w.xlsx")\nassert openpyxl.load_workbook("w.xlsx").active["A1"].value == 3',
  'pandas with openpyxl':
    'import pandas as pd\npd.DataFrame({"a": [1]}).to_excel("d.xlsx")\nassert pd.read_excel("d.xlsx")["a"].sum() == 1',
  PIL: 'from PIL import Image\nImage.new("RGB", (2, 2)).save("i.jpg")\nassert Image.open("i.jpg").size == (2, 2)',
  scipy: 'from scipy import optimize\nassert abs(optimize.brentq(lambda x: x - 1, 0, 3) - 1) < 1e-6',
  bs4: 'from bs4 import BeautifulSoup\nassert BeautifulSoup("<a>b</a>", "lxml").a.text == "b"',
  lxml: 'from lxml import etree\nassert etree.fromstring("<a><b/></a>").find("b") is not None',
}

needs('docker').describe('the full image', { timeout: 180_000 }, () => {
  let fleet: Fleet

  beforeAll(async () => {
    await promisify(execFile)(process.execPath, ['infra/images/build.ts', '--full'], { timeout: BUILD_MS })
    fleet = await startFleet()
    await fleet.createTenant('acme', { caps: { tenant_daily: 10_000, agent_hourly: 10_000 } })
    const folder = await mkdtemp(path.join(fleet.dataDir, 'config-'))
    const file = path.join(folder, 'cofferdam.config.yaml')
    await writeFile(file, JSON.stringify({ backends: { docker: { image: imageName('full') } } }))
    await fleet.startWorker({ COFFERDAM_CONFIG: file, COFFERDAM_SLOTS: '2' })
  }, BUILD_MS)
  afterAll(() => fleet?.[Symbol.asyncDispose]())

  const run = (language: 'bash' | 'python', source: string): Promise<ExecutionResult> =>
    fleet.client.run(
      {
        tenant_id: 'acme',
        agent_id: 'a',
        backend: 'docker',
        program: { type: 'script', language, source },
        limits: { memory_mib: 512, soft_timeout_ms: 50_000, hard_timeout_ms: 60_000 },
      },
      { timeoutMs: 120_000 },
    )

  it.each(Object.entries(COMMANDS))('has %s, which works', async (_name, source) => {
    expect(await run('bash', source)).toMatchObject({ ok: true })
  })

  it.each(Object.entries(MODULES))('has %s for Python, which works', async (_name, source) => {
    const result = await run('python', source)
    expect(result, result.stderr).toMatchObject({ ok: true })
  })

  it('reports a missing command by name', async () => {
    expect(await run('bash', 'ffmpeg -version')).toMatchObject({
      ending: 'error',
      error_message: expect.stringContaining('Not in the image: ffmpeg.'),
    })
  })
})

needs('docker').it('the slim image says what the full image has', { timeout: 180_000 }, async () => {
  await using fleet = await startFleet()
  await fleet.createTenant('acme')
  await fleet.startWorker({ COFFERDAM_BACKENDS: 'docker', COFFERDAM_SLOTS: '1' })
  const result = await fleet.client.run(
    {
      tenant_id: 'acme',
      agent_id: 'a',
      program: { type: 'script', language: 'python', source: 'import requests' },
    },
    { timeoutMs: 90_000 },
  )
  expect(result).toMatchObject({
    ending: 'error',
    error_message: expect.stringContaining(
      'Not in the image: requests. An operator can set the image to cofferdam/sandbox:full',
    ),
  })
})
