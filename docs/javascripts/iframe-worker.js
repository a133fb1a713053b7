"use strict";
// The search of these pages runs in a Worker, which browsers refuse to a page that is opened as a file. There a frame takes
// the worker's place: the same script, in a window of its own. Material for MkDocs asks for a script of this name.
if (location.protocol === "file:") {
  window.IFrameWorker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      const opened = this.inside.document.open();
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => urls.reduce((done, src) => done.then(() => new Promise((resolve, reject) => {
        const script = opened.createElement("script");
        Object.assign(script, { src, onload: resolve, onerror: reject });
        opened.body.append(script);
      })), Promise.resolve());
      this.ready = new Promise(resolve => {
        const script = opened.createElement("script");
        Object.assign(script, { src: url, onload: resolve });
        opened.write("<!doctype html><html><body></body></html>");
        opened.close();
        opened.body.append(script);
      });
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() { this.inside.frameElement.remove(); }
  };
  window.Worker = window.IFrameWorker;
}
