import { request as httpRequest, type RequestListener } from 'node:http'
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { getRaw, openTunnel, sendRaw, startBridge, startOrigin, type Bridge } from './loopback-fleet.ts'

const HOST = 'http://packages.cofferdam.internal'
const ALL = { pypi: ['*'], npm: ['*'] }
const SHA = 'ab'.repeat(32)

/** Starts a mirror that answers by path, and one execution in front of it. */
async function withMirror<T>(
  answer: RequestListener,
  use: (bridge: Bridge, hits: string[], port: number) => Promise<T>,
  options: { user?: string; packages?: typeof ALL; fileHosts?: string[]; maxBytes?: number } = {},
): Promise<T> {
  await using mirror = await startOrigin(answer)
  const url = `http://${options.user ?? ''}127.0.0.1:${mirror.port}`
  await using bridge = await startBridge({
    network: 'none',
    packages: options.packages ?? ALL,
    config: {
      package_mirrors: { pypi: `${url}/simple`, npm: `${url}/npm/` },
      package_file_hosts: options.fileHosts ?? [],
      ...(options.maxBytes === undefined ? {} : { max_bytes: options.maxBytes }),
    },
  })
  return await use(bridge, mirror.hits, mirror.port)
}

const html =
  (...anchors: string[]): RequestListener =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/html' }).end(`<html>${anchors.join('\n')}</html>`)
  }

describe('a project page', () => {
  it('keeps digests, Python bounds, metadata and yanks, with files only at our address', async () => {
    await withMirror(
      html(
        `<a href="../../f/my_pkg-1.0-py3-none-any.whl#sha256=${SHA}" data-requires-python="&gt;=3.8,&lt;4" data-core-metadata="sha256=${SHA}">x</a>`,
        `<A data-yanked='broken "badly"' HREF='/f/my-pkg-1.1.tar.gz'>x</A>`,
        `<a href="/f/other-1.0.tar.gz">x</a><a href="/f/my_pkg-1.0-setup.exe">x</a><a href="/f/..%2fmy_pkg-2.0.tar.gz">x</a>`,
      ),
      async (bridge) => {
        const text = await getRaw(bridge.port, `${HOST}/pypi/simple/My.Pkg/`)
        expect(text.match(/<a .*<\/a>/g)).toEqual([
          `<a href="${HOST}/pypi/files/my-pkg/my_pkg-1.0-py3-none-any.whl#sha256=${SHA}" data-requires-python="&gt;=3.8,&lt;4" data-core-metadata="sha256=${SHA}" data-dist-info-metadata="sha256=${SHA}">my_pkg-1.0-py3-none-any.whl</a>`,
          `<a href="${HOST}/pypi/files/my-pkg/my-pkg-1.1.tar.gz" data-yanked="broken &quot;badly&quot;">my-pkg-1.1.tar.gz</a>`,
        ])
        const json = await getRaw(
          bridge.port,
          `${HOST}/pypi/simple/my-pkg/`,
          'Accept: application/vnd.pypi.simple.v1+json\r\n',
        )
        expect(JSON.parse(json.slice(json.indexOf('{')))).toEqual({
          meta: { 'api-version': '1.0' },
          name: 'my-pkg',
          files: [
            {
              filename: 'my_pkg-1.0-py3-none-any.whl',
              url: `${HOST}/pypi/files/my-pkg/my_pkg-1.0-py3-none-any.whl`,
              hashes: { sha256: SHA },
              'requires-python': '>=3.8,<4',
              'core-metadata': { sha256: SHA },
              yanked: false,
            },
            {
              filename: 'my-pkg-1.1.tar.gz',
              url: `${HOST}/pypi/files/my-pkg/my-pkg-1.1.tar.gz`,
              hashes: {},
              'core-metadata': false,
              yanked: 'broken "badly"',
            },
          ],
        })
      },
    )
  })

  it('leaves out files on hosts that are neither the mirror nor listed', async () => {
    await withMirror(
      html(
        '<a href="http://169.254.169.254/a-1.0.tar.gz">',
        '<a href="https://files.example/a-2.0.tar.gz">',
        '<a href="http://files.example/a-3.0.tar.gz">',
        '<a href="file:///etc/a-4.0.tar.gz">',
      ),
      async (bridge) => {
        const text = await getRaw(bridge.port, `${HOST}/pypi/simple/a/`)
        expect(text.match(/a-\d\.0\.tar\.gz<\/a>/g)).toEqual(['a-2.0.tar.gz</a>'])
      },
      { fileHosts: ['files.example'] },
    )
  })

  it('whose files are all on another host is answered with the name of the missing setting', async () => {
    await withMirror(html('<a href="https://files.example/a-2.0.tar.gz">'), async (bridge) => {
      const why =
        'the files of a lie on another host than the package mirror, and it is not in package_file_hosts'
      expect(await getRaw(bridge.port, `${HOST}/pypi/simple/a/`)).toContain(`HTTP/1.1 502 ${why}\r\n`)
      expect(bridge.egress.mirrorFailures).toEqual([why])
    })
  })

  it('that is larger than its bound is answered 502', async () => {
    await withMirror(
      (_request, response) => {
        response.on('error', () => undefined)
        response.writeHead(200, { 'content-type': 'text/html' })
        for (let at = 0; at < 18; at += 1) response.write(Buffer.alloc(2 ** 20, 32))
        response.end()
      },
      async (bridge) => {
        const text = await getRaw(bridge.port, `${HOST}/pypi/simple/a/`)
        expect(text).toMatch(/^HTTP\/1\.1 502/)
        expect(text).toContain('the package mirror sent more than 16777216 bytes')
        expect(bridge.egress.mirrorFailures).toEqual(['the package mirror sent more than 16777216 bytes'])
      },
    )
  })
})

describe('the mirror', () => {
  it('gets its credentials, which are in nothing that the program reads', async () => {
    const seen: (string | undefined)[] = []
    await withMirror(
      (request, response) => {
        seen.push(request.headers.authorization)
        if (request.url === '/simple/down/') response.destroy()
        else if (request.url === '/simple/denied/') response.writeHead(401).end()
        else html('<a href="/f/a-1.0.tar.gz">')(request, response)
      },
      async (bridge) => {
        const texts = await Promise.all(
          ['simple/a/', 'simple/denied/', 'simple/down/', 'files/a/a-1.0.tar.gz'].map((path) =>
            getRaw(bridge.port, `${HOST}/pypi/${path}`),
          ),
        )
        expect(new Set(seen)).toEqual(new Set([`Basic ${Buffer.from('us er:s3cret').toString('base64')}`]))
        for (const text of [...texts, JSON.stringify(bridge.egress.refusals)])
          expect(text).not.toMatch(/s3cret|us er|us%20er|127\.0\.0\.1/)
        expect(texts[1]).toContain('the package mirror answered 401')
        expect(texts[2]).toContain('the package mirror cannot be reached')
      },
      { user: 'us%20er:s3cret@' },
    )
  })

  it('may redirect within its own host, and to no other', async () => {
    let other: { hits: string[] } | undefined
    await using elsewhere = await startOrigin((_request, response) => response.end('<a href="a-1.0.tar.gz">'))
    other = elsewhere
    await withMirror(
      (request, response) => {
        const to: Record<string, string> = {
          '/simple/near/': '/moved/near/',
          '/simple/far/': `http://127.0.0.1:${elsewhere.port}/simple/far/`,
          '/simple/round/': '/simple/round/',
          '/simple/meta/': 'http://169.254.169.254/',
        }
        const location = to[request.url ?? '']
        if (location === undefined) html('<a href="/f/near-1.0.tar.gz">')(request, response)
        else response.writeHead(301, { location }).end()
      },
      async (bridge) => {
        expect(await getRaw(bridge.port, `${HOST}/pypi/simple/near/`)).toContain('near-1.0.tar.gz')
        for (const name of ['far', 'meta'])
          expect(await getRaw(bridge.port, `${HOST}/pypi/simple/${name}/`)).toContain(
            'the package mirror points to another host',
          )
        expect(await getRaw(bridge.port, `${HOST}/pypi/simple/round/`)).toContain('redirects without end')
      },
    )
    expect(other.hits).toEqual([])
  })

  it.each([
    ['another project', '/pypi/simple/b/'],
    ['a name with a path in it', '/pypi/simple/..%2f..%2fadmin/'],
    ['a name with a query in it', '/pypi/simple/a%3fx=/'],
    ['a file that does not exist', '/pypi/files/a/a-9.tar.gz'],
    ['another package', '/npm/b'],
    ['an endpoint of the registry', '/npm/-/v1/search'],
    ['a path through a scope', '/npm/@a%2f..%2fadmin'],
    ['a path out of a scope', '/npm/@a/..%2f..'],
    ['nothing', '/'],
  ])('is not asked for %s', async (_what, path) => {
    await withMirror(
      html('<a href="/f/a-1.0.tar.gz">'),
      async (bridge, hits) => {
        expect(await getRaw(bridge.port, HOST + path)).toMatch(/^HTTP\/1\.1 40[34] /)
        expect(hits.filter((hit) => !hit.startsWith('GET /simple/a/ '))).toEqual([])
      },
      { packages: { pypi: ['a'], npm: ['a'] } },
    )
  })

  it('that calls a .tar.gz encoded is refused, because the digest would not match', async () => {
    await withMirror(
      (request, response) => {
        if (request.url !== '/f/a-1.0.tar.gz') html('<a href="/f/a-1.0.tar.gz">')(request, response)
        else response.writeHead(200, { 'content-encoding': 'x-gzip' }).end(gzipSync('an archive'))
      },
      async (bridge) => {
        expect(await getRaw(bridge.port, `${HOST}/pypi/files/a/a-1.0.tar.gz`)).toContain(
          'HTTP/1.1 502 the package mirror calls .gz files encoded (Content-Encoding: x-gzip)',
        )
        expect(bridge.egress.installed).toEqual([])
      },
    )
  })

  it('is asked once for an index that several requests need, and its files count as bytes', async () => {
    await withMirror(
      (request, response) => {
        if (request.url === '/f/a-1.0.tar.gz') response.end(Buffer.alloc(300_000))
        else html('<a href="/f/a-1.0.tar.gz">')(request, response)
      },
      async (bridge, hits, port) => {
        const file = `${HOST}/pypi/files/a/a-1.0.tar.gz`
        const page = `${HOST}/pypi/simple/a/`
        await Promise.all([getRaw(bridge.port, page), getRaw(bridge.port, page)])
        expect((await getRaw(bridge.port, file)).length).toBeGreaterThan(300_000)
        expect((await getRaw(bridge.port, file)).length).toBeLessThan(101_000)
        expect(hits.filter((hit) => hit.includes('/simple/a/'))).toHaveLength(1)
        expect(bridge.egress.bytes.received).toBeLessThanOrEqual(400_000)
        expect(await getRaw(bridge.port, file)).toContain('the execution has spent its bytes')
        expect(bridge.egress.installed).toEqual([{ name: 'a', version: '1.0' }])
        expect(bridge.egress.hosts).toEqual([`127.0.0.1:${port}`])
      },
      { maxBytes: 400_000 },
    )
  })
})

describe('a packument', () => {
  const whole = {
    name: '@s/a',
    'dist-tags': { latest: '2.0.0', next: '3.0.0-rc.1', old: '1.0.0' },
    versions: Object.fromEntries(
      ['1.0.0', '1.5.0', '2.0.0', '3.0.0-rc.1'].map((version) => [
        version,
        { name: '@s/a', version, dist: { tarball: `/t/${version}.tgz`, integrity: `sha512-${version}` } },
      ]),
    ),
    time: { created: 'c', modified: 'm', '1.0.0': 'x', '2.0.0': 'y' },
  }
  const answer: RequestListener = (request, response) => {
    if (request.url?.startsWith('/t/')) response.end(`bytes of ${request.url}`)
    else if (request.url === '/npm/@s%2fa') response.end(JSON.stringify(whole))
    else if (request.url === '/npm/b') response.end(JSON.stringify({ ...whole, name: 'c' }))
    else response.end('not json')
  }

  it.each(['/npm/@s%2fa', '/npm/@s/a'])(
    'at %s has only the allowed versions, and tags for them',
    async (path) => {
      await withMirror(
        answer,
        async (bridge) => {
          const text = await getRaw(bridge.port, HOST + path)
          expect(JSON.parse(text.slice(text.indexOf('{')))).toEqual({
            name: '@s/a',
            'dist-tags': { old: '1.0.0', latest: '1.5.0' },
            versions: Object.fromEntries(
              ['1.0.0', '1.5.0'].map((version) => [
                version,
                {
                  name: '@s/a',
                  version,
                  dist: { tarball: `${HOST}/npm/@s/a/-/a-${version}.tgz`, integrity: `sha512-${version}` },
                },
              ]),
            ),
            time: { created: 'c', modified: 'm', '1.0.0': 'x' },
          })
          expect(await getRaw(bridge.port, `${HOST}/npm/@s/a/-/a-1.5.0.tgz`)).toContain(
            'bytes of /t/1.5.0.tgz',
          )
          expect(await getRaw(bridge.port, `${HOST}/npm/@s/a/-/a-2.0.0.tgz`)).toMatch(
            /^HTTP\/1\.1 403 version 2\.0\.0/,
          )
          expect(bridge.egress.installed).toEqual([{ name: '@s/a', version: '1.5.0' }])
          expect(bridge.egress.narrowedPackages).toEqual([{ name: '@s/a', rule: '@s/a@1' }])
        },
        { packages: { pypi: [], npm: ['@s/a@1'] } },
      )
    },
  )

  it.each([
    // npm 8 to 10 put our path before an address that already has it.
    '/npm/npm/@s/a/-/a-1.5.0.tgz',
    // The path of the registry with which a lock file was made.
    '/npm/artifactory/api/npm/all/@s/a/-/a-1.5.0.tgz',
    '/npm/@other/store/@s%2fa/-/a-1.5.0.tgz',
  ])('has its tarballs at %s too', async (path) => {
    await withMirror(
      answer,
      async (bridge) => {
        expect(await getRaw(bridge.port, HOST + path)).toContain('bytes of /t/1.5.0.tgz')
        expect(await getRaw(bridge.port, HOST + path.replace('1.5.0', '2.0.0'))).toMatch(
          /^HTTP\/1\.1 403 version 2\.0\.0/,
        )
        expect(await getRaw(bridge.port, HOST + path.replace('@s', '@t'))).toMatch(
          /^HTTP\/1\.1 403 package @t\/a is not/,
        )
        expect(bridge.egress.installed).toEqual([{ name: '@s/a', version: '1.5.0' }])
      },
      { packages: { pypi: [], npm: ['@s/a@1'] } },
    )
  })

  it.each(['/npm/-/a-1.5.0.tgz', '/npm/-/v1/search', '/npm/x/y', '/npm/@s/a/b', '/npm/', '/npm/-'])(
    'is not at %s',
    async (path) => {
      await withMirror(answer, async (bridge) => {
        expect(await getRaw(bridge.port, HOST + path)).toMatch(/^HTTP\/1\.1 404 the package proxy serves/)
        expect(bridge.egress.mirrorFailures).toEqual([])
      })
    },
  )

  it.each(['b', 'nonsense'])('that is invalid (%s) is answered 502', async (name) => {
    await withMirror(answer, async (bridge) => {
      expect(await getRaw(bridge.port, `${HOST}/npm/${name}`)).toContain(
        'the package mirror gave an answer that cannot be read',
      )
    })
  })
})

describe('the package host', () => {
  it('is refused to an execution that may not install', async () => {
    await using bridge = await startBridge({ network: 'public', packages: null })
    const text = await getRaw(bridge.port, `${HOST}/pypi/simple/a/`)
    expect(text).toMatch(/^HTTP\/1\.1 403/)
    expect(text).toContain('this execution may not install packages')
  })

  it('answers requests inside of a tunnel, for clients that always use CONNECT', async () => {
    await withMirror(html('<a href="/f/a-1.0.tar.gz">'), async (bridge) => {
      const { head, socket } = await openTunnel(bridge.port, 'packages.cofferdam.internal:80')
      expect(head).toMatch(/^HTTP\/1\.1 200/)
      const body = await new Promise<string>((done, fail) => {
        const out = httpRequest({
          path: '/pypi/simple/a/',
          createConnection: () => socket,
          headers: { host: 'x' },
        })
        out.once('error', fail).once('response', (response) => {
          let text = ''
          response.on('data', (chunk: Buffer) => (text += chunk.toString())).once('end', () => done(text))
        })
        out.end()
      })
      expect(body).toContain('a-1.0.tar.gz')
      socket.destroy()
    })
  })

  it('accepts no other method', async () => {
    await withMirror(html(), async (bridge, hits) => {
      const text = await sendRaw(
        bridge.port,
        `PUT ${HOST}/npm/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
      )
      expect(text).toMatch(/^HTTP\/1\.1 404/)
      expect(hits).toEqual([])
    })
  })
})
