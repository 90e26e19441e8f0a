-- A store as Accord 0.1 wrote it: conversations, labels (repeats, turns, 'does not apply', words, comparisons),
-- answers of a scripted judge and of a judge by token probabilities, replies, vectors, assessments, runs, scores, days
-- and alarms. Made once by the 0.1 code through its own `Store`; the dump is `sqlite3`'s `Connection.iterdump`.
BEGIN TRANSACTION;
CREATE TABLE alarms (
	"key" VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	raised VARCHAR NOT NULL, 
	sent VARCHAR, 
	PRIMARY KEY ("key")
);
INSERT INTO "alarms" VALUES('k1','{"what":"mean"}','2026-11-23T04:32:31.043+00:00','2026-11-23T04:32:31.044+00:00');
INSERT INTO "alarms" VALUES('k2','{"what":"inputs"}','2026-11-23T04:32:31.044+00:00',NULL);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0007');
CREATE TABLE answers (
	"key" VARCHAR NOT NULL, 
	conversation VARCHAR NOT NULL, 
	turn INTEGER, 
	question VARCHAR NOT NULL, 
	judge VARCHAR NOT NULL, 
	way VARCHAR NOT NULL, 
	probabilities TEXT NOT NULL, 
	outside FLOAT NOT NULL, 
	made_from TEXT NOT NULL, 
	added VARCHAR NOT NULL, version VARCHAR, 
	PRIMARY KEY ("key")
);
INSERT INTO "answers" VALUES('s256:05574b338cd60fbed0bb445efcd3cc90382e8a95','a',NULL,'Q8','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22}',0.37,'{"judge":"small","question":"Q8","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:0f91af17bb821fcf6a76a4a5085a0c5a65c9504e','odd',1,'Q3','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q3","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:1520b983b00277ffde271be703b72e4708dc833d','odd',1,'Q1','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q1","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:2be08fc7f29f1de272eb749c5c05f93ad7518566','odd',1,'Q2','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q2","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:2ebe79a8484ee2ac998483787b52b6349d9aeee3','b',NULL,'Q5','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q5","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:377b71d2d9a815da5cf0eee00ba8c3f61bfa3369','odd',1,'Q4','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q4","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:4f259313ffd26a360f328c48c26189bb73b622c8','odd',1,'Q8','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22}',0.37,'{"judge":"small","question":"Q8","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:55f6fd10eb4667a7b3272525ef0e5fe6e3016b5e','odd',1,'Q7','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q7","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:6512a39c76b8c3adc384e6a32fffb55e07d7af1c','b',NULL,'Q8','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22}',0.37,'{"judge":"small","question":"Q8","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:666e6e7fa0136beb74b11b1ae7fadce88a793411','a',NULL,'Q2','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q2","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:717c74daa1861ec88478ee7ff044910fced872f1','b',NULL,'Q7','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q7","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:71f5feb7fbdf906b1b51d295e5d8018c0c41cb4e','odd',1,'Q6','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q6","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:810ff395c3a23ba57ac72b1084ec0a609e87e12e','b',NULL,'Q6','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q6","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:91eb66d13a8ba35bed26edcbe3bdb186ed5032bf','a',NULL,'Q6','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q6","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:9a3ee57f2a3b717592bb0fe6554ee03cb47a5b4a','b',NULL,'Q1','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q1","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:a64f287fc71f9a6c481ee312da6d6523ef47dc71','a',NULL,'Q4','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q4","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:bd43361033ece6ff6169cc90a5ba393e9dfc61bf','b',NULL,'Q2','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q2","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:bfaad0b3c7aa00ddfbe8f809cdbcb8093d192d34','a',NULL,'Q0','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q0","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:c170b0989ebd6102e6829bb4448efb0e99d70372','a',NULL,'Q5','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q5","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:ccc5d61aa8ab91c2d3724fe2cf225afb90ff9262','odd',1,'Q0','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q0","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:ccc9b2d5bbc3b504ef149d9bd469644c7ceb1fe9','a',NULL,'Q3','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q3","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:e2a6fd75f461c295a4e253fd2ba8e65384a9b9e6','b',NULL,'Q3','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q3","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:e3bf04e7cecd894560481ac175f9b97fadc86c07','b',NULL,'Q4','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q4","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:e41116bfb461f9eca0eff8c1bed60c76b3f138fe','odd',1,'Q5','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q5","target":"odd#1","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:e6dcaf8cb820828b41e2bbd6a91e43270d93822e','b',NULL,'Q0','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q0","target":"b","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:ed89c538fa8b2e262e324e6d49eeab725969effb','a',NULL,'Q7','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q7","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:ffeeb7c657beb90e28d8e9dd0c46f56777bc78f5','a',NULL,'Q1','small','scripted','{"1":0.2,"2":0.21000000000000002,"3":0.22,"4":0.23}',0.14,'{"judge":"small","question":"Q1","target":"a","way":"scripted"}','2026-11-23T04:32:30.976+00:00',NULL);
INSERT INTO "answers" VALUES('s256:01a09c4246902e404659f7d71d4f615fabb16cab','odd',NULL,'Q2','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:ceaee3f234a3a05e6940ec7bb9534991444d6680f1bd329c6bdb470c09d2a432","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:0cbef767a7fc9cf9143ada38538b67de465f5d70','odd',NULL,'Q6','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:06a8a2f9be3dbe1c80d346a9369ba63dacacbc943f92c675b365e3ba8fd0480b","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:0d625b70db2158f7ceaf5aa8340734cfd47a8d63','a',NULL,'Q6','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:262dfc6862961828d69286f4a9942531131c15a547d8735b6f3996e2e73f3eda","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:0d812d18bacf02c667c08e0a366d2148f0684419','a',NULL,'Q4','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:455db5b7d03153cc70c724e412a975a5500d1ebf00d44dc51a3b29a146b3c2b4","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:15821192acffd4c197cf8e46c247bdb8ea6da9ca','a',NULL,'Q3','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:1a8abed9e0ac7a7b19c086182063a785695c14c573bab72f090389d856999efc","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:174e2755b9360f75eff1b4c436d0fe8eb59aabd2','a',NULL,'Q8','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25}',0.75,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:6f9fe6b3518e859a239dc7d9a1d130189a7dc5ba43f4e1e0da7f8d355a1266d1","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:1aaf20bd3fafe40c1f85c02870972db152618c52','odd',NULL,'Q1','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:43818523ddb7517743c38121710626138f208a9ee29572e0ba5c34fedd092d99","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:1bcd84248ab6c63cf9fdde7fa16881d8c2eaf1c7','odd',NULL,'Q3','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:29b22819783f5bc239207ac3fb03dd46c6a31245bd3f79dd4757ecdd84cae6f3","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:289ad5e4bc62945d9c111408b6c76863cb08a729','odd',NULL,'Q5','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:0daf0f575401316a293b31b74963ca66700548bb85ced266498298dac003d939","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:3415fed01b25ee7168e753a84a7d1a751734deb0','a',NULL,'Q7','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:4a2e0aed0321a6d2f40194defa21a10701389bac3dd8ce9c61ea7029534e7ec5","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:48539a4da24a3060b214b496789bf614c5ae8366','a',NULL,'Q2','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:9874f45af7ba8c4db4147345adc3a67904ea5532e5b011c98fcc07c4c06bb16e","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:84ceded1a4fa9841949fc7c4f2a13fd490ff55cd','odd',NULL,'Q7','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:433a6b6c6c1d57c269cd9620e0fc14851e285377c92f227d35f1e5f36e5babdc","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:9c5611e06909b56bd4fa5b1b74240b61f65566ad','a',NULL,'Q1','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:4096573a396e3cdbcb1f6ef854f03c53bae5b5337f46f1c7a0ee8fde4f23e310","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:b3cd49ad0d23f62c34b6f89f22b7402365c33e19','a',NULL,'Q5','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:94723a8e65d77c71e3d67654598c1a40e1ce3e8f45671eb3b359e604d6383c8e","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:d11f076499d12bda31a7262137b84dcbd20309aa','a',NULL,'Q0','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:273d3e92664d16d900769eae6845a4fc7444c2cc1929b442f3666e27670d75cf","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:d4e3e976d376f92a9882df43799cc796a61a2f00','odd',NULL,'Q8','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25}',0.75,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:6007aa09722ec34dc8b94b57a4a5d2dfffa75f9eb7ef4cbc7ac9fa01e5496b8d","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:dc0d5080ef5df0fbda9369013363dd79b98b40c2','odd',NULL,'Q4','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:9e20b66b06de71892e787c2ad58e9b83971fdc7dfe680fac717d48690de06f46","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
INSERT INTO "answers" VALUES('s256:ff689fdefeac1942affef6a3389a16bfe4eff729','odd',NULL,'Q0','tiny','logprobs','{"1":0.0,"2":0.0,"3":0.25,"4":0.625}',0.125,'{"endpoint":"https://example.org/v1","judge":"tiny","prompt":"s256:12f3c9a1256e3fff25d9d52e72f119a01cca5c2d9b471e38f8efd377a2c7937d","top_logprobs":20,"way":"logprobs"}','2026-11-23T04:32:31.033+00:00','tiny-2026-01-01');
CREATE TABLE assessments (
	"key" VARCHAR NOT NULL, 
	conversation VARCHAR NOT NULL, 
	turn INTEGER NOT NULL, 
	made_by VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	added VARCHAR NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "assessments" VALUES('s256:492434fcc9b24a80460716308a0e862fdb99b932','bare',0,'issues|model:gpt|via:recorded|repeat:2','{"comment":"Other.","issues":[{"comment":"Rude.","type":"Antisocial"}],"score":1}','2026-11-23T04:32:31.038+00:00');
INSERT INTO "assessments" VALUES('s256:6074d0722ae0972a1305fec29f0cd1c9ff372f11','a',1,'issues|model:small|taxonomy:s256:1f3c|prompt:s256:9a','{"comment":"So so. NUL \u0000, half a pair \ud83d, \u202ertl, line\nbreak, =1+1, Gr\u00fc\u00dfe, \u4f60\u597d","issues":[{"comment":"It cannot be better.","quote":"much  Better","span":[24,35],"type":"Commonsense"},{"comment":"Wrong: NUL \u0000, half a pair \ud83d, \u202ertl, line\nbreak, =1+1, Gr\u00fc\u00dfe, \u4f60\u597d","quote":"not there at all","type":"Incoherence"},{"comment":"Wrong: NUL \u0000, half a pair \ud83d, \u202ertl, line\nbreak, =1+1, Gr\u00fc\u00dfe, \u4f60\u597d","quote":"not there at all","said":"makes no sense","type":"Incoherence"}],"losses":["unknown kind","no JSON"],"said":"s256:a9a815013168a002","score":2}','2026-11-23T04:32:31.039+00:00');
INSERT INTO "assessments" VALUES('s256:7352a0fd0bd27af6f45b39212e1b001875b3ae8c','a',1,'by hand','{"comment":"Other.","issues":[{"comment":"","type":"Antisocial"}],"score":1}','2026-11-23T04:32:31.039+00:00');
INSERT INTO "assessments" VALUES('s256:b559eb10797859af919097da574ce3c521dd5d23','a',3,'issues|model:small|taxonomy:s256:1f3c|prompt:s256:9a','{"comment":"","issues":[],"said":"s256:e8a1d8271a2d66ed","score":5}','2026-11-23T04:32:31.039+00:00');
CREATE TABLE conversations (
	id VARCHAR NOT NULL, 
	hash VARCHAR NOT NULL, 
	system VARCHAR, 
	turns INTEGER NOT NULL, 
	content TEXT NOT NULL, 
	added VARCHAR NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "conversations" VALUES('a','s256:845d26760a641537ee6013756ecd8ab9ba2be780e85194364635c64a0fc0421a','s',4,'{"documents":[{"id":"1","text":"d","title":"t"}],"id":"a","metadata":{"system":"s"},"turns":[{"content":"Where is my parcel?","role":"user"},{"content":"It is on its way. It is much better now.","role":"assistant"},{"content":"Thanks","role":"user"},{"content":"","role":"assistant"}]}','2026-11-23T04:32:30.918+00:00');
INSERT INTO "conversations" VALUES('b','s256:110cab7cec195de15b25c543faeaed0bdf81580fdf4fc42df70ff5557b10e666','s',4,'{"documents":[{"id":"1","text":"d","title":"t"}],"id":"b","metadata":{"system":"s"},"turns":[{"content":"Hello","role":"user"},{"content":"It is on its way. It is much better now.","role":"assistant"},{"content":"Thanks","role":"user"},{"content":"","role":"assistant"}]}','2026-11-23T04:32:30.918+00:00');
INSERT INTO "conversations" VALUES('bare','s256:903e82d106799fda411c2f4a8adadebd961b1c647b3a40b38f4fc8643289c884',NULL,0,'{"documents":[],"id":"bare","metadata":{},"turns":[]}','2026-11-23T04:32:30.918+00:00');
INSERT INTO "conversations" VALUES('odd','s256:33dcf16e73c840a29024d2ea235a483399f2357cf15bcb174caf31404f17fe83','s',4,'{"documents":[{"id":"1","text":"d","title":"t"}],"id":"odd","metadata":{"system":"s"},"turns":[{"content":"NUL \u0000, half a pair \ud83d, \u202ertl, line\nbreak, =1+1, Gr\u00fc\u00dfe, \u4f60\u597d","role":"user"},{"content":"It is on its way. It is much better now.","role":"assistant"},{"content":"Thanks","role":"user"},{"content":"","role":"assistant"}]}','2026-11-23T04:32:30.918+00:00');
CREATE TABLE days (
	"key" VARCHAR NOT NULL, 
	evaluator VARCHAR NOT NULL, 
	system VARCHAR NOT NULL, 
	day VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "days" VALUES('d1','e','s','2026-01-01','{"mean":0.5,"n":3}');
INSERT INTO "days" VALUES('d2','e','s','2026-01-02','{"n":4}');
CREATE TABLE embeddings (
	"key" VARCHAR NOT NULL, 
	embedder VARCHAR NOT NULL, 
	vector BLOB NOT NULL, 
	added VARCHAR NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "embeddings" VALUES('v1','small-vectors',X'0000003F0000A0BFB00FA134','2026-11-23T04:32:31.038+00:00');
INSERT INTO "embeddings" VALUES('v2','small-vectors',X'0000000000000000','2026-11-23T04:32:31.038+00:00');
CREATE TABLE labels (
	"key" VARCHAR NOT NULL, 
	conversation VARCHAR NOT NULL, 
	turn INTEGER, 
	question VARCHAR NOT NULL, 
	annotator VARCHAR NOT NULL, 
	value TEXT, 
	time VARCHAR, 
	added VARCHAR NOT NULL, 
	place INTEGER NOT NULL, wording VARCHAR, against VARCHAR, against_turn INTEGER, 
	PRIMARY KEY ("key")
);
INSERT INTO "labels" VALUES('s256:1b47c5920f33a44755f49e1df799b9349d26f7f6','a',1,'issue:Commonsense','bob','1',NULL,'2026-11-23T04:32:30.922+00:00',12,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:3f52cd0cf5a1a0f388c7935e9d9d7666fbe5271e','b',NULL,'length','ann','3.0',NULL,'2026-11-23T04:32:30.922+00:00',9,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:44dd77a7cc4c809af1e136a24647b034bfbb6c8f','a',1,'Q0','bob','2','2026-01-01','2026-11-23T04:32:30.922+00:00',5,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:49f715708419b2b021fdb96972f06917d78983b3','a',NULL,'better','ann','1',NULL,'2026-11-23T04:32:30.922+00:00',10,NULL,'b',NULL);
INSERT INTO "labels" VALUES('s256:507c546233a0865e6d0e3f243425f0e91ff63091','b',NULL,'kind','çelik','"good = g\u00fct"',NULL,'2026-11-23T04:32:30.922+00:00',7,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:6597f7f5f4d91cc4ff41583fe1d56827cb563a3e','b',NULL,'length','ann','0.25',NULL,'2026-11-23T04:32:30.922+00:00',8,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:679644ac3482dea290180e510fa75ccba0699f45','a',NULL,'Q0','ann','2','2026-01-01T10:00:00Z','2026-11-23T04:32:30.922+00:00',4,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:8820948bf72e00126dbc43da8029f3f277e7a60d','a',NULL,'Q0','ann','3',NULL,'2026-11-23T04:32:30.922+00:00',3,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:8af4e2f66539a2f1b5c7187a69f49e873dec84c6','b',NULL,'Q2','ann','null',NULL,'2026-11-23T04:32:30.922+00:00',6,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:a712b6ca6e0deae067cd8b8c6a507bfd06ff0741','a',NULL,'Q0','ann','3',NULL,'2026-11-23T04:32:30.922+00:00',2,NULL,NULL,NULL);
INSERT INTO "labels" VALUES('s256:b05f8ae4e201b59a27958932564ae90e1ae6237e','a',1,'better','bob','-1','2026-02-01','2026-11-23T04:32:30.922+00:00',11,'s256:abcd','odd',1);
INSERT INTO "labels" VALUES('s256:c009f804c211c49d3312adb1ae68a6c66cd97c9a','a',NULL,'Q0','ann','3',NULL,'2026-11-23T04:32:30.922+00:00',1,'s256:ad0475dc813c',NULL,NULL);
INSERT INTO "labels" VALUES('s256:dadf30e3707f48cab79cfd4eb5ed95c6511c020d','bare',7,'Q0','bob','4',NULL,'2026-11-23T04:32:30.922+00:00',13,NULL,NULL,NULL);
CREATE TABLE replies (
	"key" VARCHAR NOT NULL, 
	model VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	added VARCHAR NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "replies" VALUES('s256:e96921fc27c5cef8291cd02f02c2d5d2909bff7c','tiny','{"text": "said: hello", "model": "tiny-2026-01-01", "first_token": null, "usage": {"input_tokens": 0, "output_tokens": 0}}','2026-11-23T04:32:31.036+00:00');
INSERT INTO "replies" VALUES('s256:28baa9c38e98a605abc8bf01683ab917e22a94d4','tiny','{"text": "said: NUL \u0000, half a pair \ud83d, \u202ertl, line\nbreak, =1+1, Gr\u00fc\u00dfe, \u4f60\u597d", "model": "tiny-2026-01-01", "first_token": null, "usage": {"input_tokens": 0, "output_tokens": 0}}','2026-11-23T04:32:31.037+00:00');
CREATE TABLE runs (
	id VARCHAR NOT NULL, 
	command VARCHAR NOT NULL, 
	settings TEXT NOT NULL, 
	status VARCHAR NOT NULL, 
	results TEXT, 
	started VARCHAR NOT NULL, 
	finished VARCHAR, 
	PRIMARY KEY (id)
);
INSERT INTO "runs" VALUES('9d8c2eccd57b','score','{"seed":1}','done','{"mean":2.5}','2026-11-23T04:32:31.040+00:00','2026-11-23T04:32:31.041+00:00');
INSERT INTO "runs" VALUES('78a53c6da421','judge','{"way":"logprobs"}','running',NULL,'2026-11-23T04:32:31.042+00:00',NULL);
CREATE TABLE scores (
	run VARCHAR NOT NULL, 
	place INTEGER NOT NULL, 
	conversation VARCHAR NOT NULL, 
	content TEXT NOT NULL, 
	PRIMARY KEY (run, place)
);
INSERT INTO "scores" VALUES('9d8c2eccd57b',0,'a','{"conversation":"a","unscored":null,"value":1.5}');
INSERT INTO "scores" VALUES('9d8c2eccd57b',1,'b','{"conversation":"b","unscored":"refused","value":null}');
CREATE INDEX labels_by_conversation ON labels (conversation);
CREATE INDEX answers_by_conversation ON answers (conversation);
CREATE INDEX scores_by_conversation ON scores (conversation);
CREATE INDEX days_by_day ON days (day);
CREATE INDEX assessments_by_conversation ON assessments (conversation);
COMMIT;
