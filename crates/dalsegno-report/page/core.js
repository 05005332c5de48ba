// The bridge to the module: bytes in, JSON out. All that is known of runs is computed there.

class Core {
  static async open(code, archives) {
    const core = new Core();
    core.module = await WebAssembly.compile(code);
    core.archives = [];
    await core.start();
    archives.forEach((archive) => core.add(archive));
    return core;
  }

  async start() {
    this.exports = (await WebAssembly.instantiate(this.module, {})).exports;
    for (const archive of this.archives) this.call("add", archive);
  }

  add(archive) {
    const runs = this.call("add", archive);
    this.archives.push(archive);
    return runs;
  }

  ask(question) {
    return this.call("ask", new TextEncoder().encode(JSON.stringify(question)));
  }

  call(name, bytes) {
    let text;
    try {
      const at = this.exports.room(bytes.length);
      new Uint8Array(this.exports.memory.buffer, at, bytes.length).set(bytes);
      const length = this.exports[name]();
      const answer = new Uint8Array(this.exports.memory.buffer, this.exports.answer(), length);
      text = new TextDecoder().decode(answer);
    } catch (error) {
      // An instance that stopped is of no more use. The next question gets a new one.
      this.start();
      throw new Error(`the core stopped (${error.message}): please report it, with this file`);
    }
    const answer = JSON.parse(text);
    if ("error" in answer) throw new Error(answer.error);
    return answer.ok;
  }
}

async function inflated(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// What this browser lacks, in one sentence; nothing if it has all.
function missing() {
  const lacks = [];
  if (typeof WebAssembly !== "object") lacks.push("WebAssembly");
  if (typeof DecompressionStream !== "function") lacks.push("DecompressionStream");
  if (lacks.length === 0) return null;
  return `This browser has no ${lacks.join(" and no ")}, so it cannot run the report: open this file in a current Chromium, Firefox or Safari.`;
}

// The archive in the text of another report, or the bytes themselves where the file is an archive.
async function archiveOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const head = new TextDecoder().decode(bytes.subarray(0, 32));
  if (head.startsWith("dalsegno archive ")) return { archive: bytes, facts: null };
  const text = new TextDecoder().decode(bytes);
  const part = (id) => text.match(new RegExp(`[<]script type="[a-z/-]+" id="${id}">([^<]*)[<]`));
  const [journal, facts] = [part("journal"), part("facts")];
  if (!journal || !facts) throw new Error("this file is neither a report nor an archive of Dalsegno: choose one that `dalsegno export` wrote");
  return { archive: await inflated(journal[1]), facts: JSON.parse(facts[1]) };
}
