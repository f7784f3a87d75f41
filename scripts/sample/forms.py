#!/usr/bin/env python3
"""Makes forms.ndjson and forms.tsv: documents and labelled pairs of which similarity alone cannot tell what they are.

  form         one form, filled in for another town, firm or amount: different
  annual       an annual notice, and that of the year before: different
  disclaimer   two short notices over the same disclaimer: different
  notation     one text with its numbers, dates and possessives written in another way, in another page: same
  rewritten    one text with a sentence more, another headline, and a paragraph less: same

  forms.py           write both files
  forms.py --check   write nothing; exit 1 if a file is not what would be written

Standard library only; the same bytes on every run. Everything in it is invented.
"""
import itertools
import json
import sys
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent

# Each form with its fillings; of a form every filling is a document, and neighbouring ones are pairs.
FORMS = {
    "en": [
        (
            "Grant of {0} for the fire brigade of {1}",
            "The Minister for the Regions announced today that the volunteer fire brigade of {1} will receive {0} towards {2}. The money comes "
            "from the national programme for rural brigades, which this year gives 40 million to brigades in all counties. \"Our volunteers go "
            "out at any hour and in any weather, and they deserve equipment that they can rely on,\" the minister said. The brigade of {1}, "
            "which has {3} members, had applied in spring. The programme pays nine tenths of what is bought; the municipality pays the rest. "
            "Applications for the next round can be handed in until the end of March at the county office.",
            [("$38,071", "Harrowgate", "breathing apparatus", "31"), ("$117,400", "Pellbrook", "a water tender", "44"),
             ("$9,865", "Stony Marsh", "thermal cameras", "22"), ("$64,210", "Upper Quill", "protective clothing", "27")],
        ),
        (
            "Broadband for {0}: work begins in {1}",
            "Fast connections are coming to {0}. The network company said that its fitters will begin to lay cables along {2} in {1} and will have "
            "connected the first {3} households by the end of the year. Residents need do nothing for it: they are told by letter when it is the turn "
            "of their street. Where front gardens have to be dug up, they are put right at the company's expense. Those who want a connection "
            "into the house can order it free of charge until the work reaches them; later it costs the price of the list. The council had "
            "voted for the contract last autumn.",
            [("Brackendale", "May", "Mill Road", "640"), ("Sandhythe", "June", "the harbour front", "1,120"),
             ("Owlerton", "August", "Chapel Street", "385"), ("Low Fenwick", "September", "the old railway", "212")],
        ),
        (
            "{0} opens new branch in {1}",
            "The savings bank {0} has opened a branch in {1}. The rooms in {2} were rebuilt for {3} and have a counter that can be used from a "
            "wheelchair, two machines for cash, and a room for talks about mortgages and pensions. The branch is open from Monday to Friday from nine "
            "to five, on Thursdays until seven. \"People want somebody to talk to when it is about their money,\" said the head of the branch. "
            "Customers of the closed branch nearby keep their account numbers and cards; standing orders go on without their doing anything.",
            [("Northgate Mutual", "Calder Bay", "the former post office", "$410,000"), ("Teller & Sons", "Winnow", "Kiln Lane 8", "$265,000"),
             ("Harbour Trust", "Great Tolley", "the town hall arcade", "$730,000")],
        ),
        (
            "This week on the farm hour: {0}",
            "In the farm hour of this week our guest is {0}, who talks about {1}. As always we begin with the prices of the week at the markets of the "
            "county and with the weather for the coming days, and our listeners' questions come after the news at half past. The farm hour can be heard "
            "on all stations of the network on {2} at six in the morning and is repeated on the following evening. Earlier editions can be listened to on "
            "the site of the network for four weeks. Questions to our guests reach us by telephone or in writing.",
            [("Ada Merrow", "how to keep a flock over winter", "14 January"), ("Tobias Fell", "prices of feed", "21 January"),
             ("Ines Corrow", "young farmers who take over", "28 January"), ("Rufus Oake", "hedges and subsidies", "4 February")],
        ),
        (
            "Roadworks in {0} from {1}",
            "The surface of {0} is renewed between {2}. The road is closed to through traffic from {1}; residents can reach their houses on foot at all times and by car "
            "in the evening. Buses take the diversion by {3}. The work takes about two weeks if the weather is dry.",
            [("Quay Lane", "3 March", "the mill and the chapel", "Station Road"), ("Sorrel Avenue", "17 March", "the school and the park", "Ferry Street"),
             ("Tanner's Row", "31 March", "numbers 4 and 60", "the bypass")],
        ),
        (
            "Court: {0} fined for {1}",
            "The district court has fined {0} {2} for {1}. The firm had been warned twice by the inspectors in the course of last year and had promised to "
            "put things right by summer. When the inspectors came again in autumn they found nothing changed. The court held against the firm that it had saved "
            "money at the expense of others, and in its favour that nobody came to harm. The firm has a fortnight in which to appeal. A spokesman said that it "
            "would study the ruling first and had meanwhile named somebody who is responsible for the matter.",
            [("Delvane Plastics", "waste in the river", "$120,000"), ("the bakery chain Crumb", "dirty storerooms", "$45,500"),
             ("Moorhaul Transport", "lorries without working brakes", "$88,000")],
        ),
        (
            "{0} wins {1} contract",
            "{0} said on Tuesday it had won a contract worth {2} to supply {1}. Deliveries will begin next quarter and extend over {3} years, the company said in a "
            "statement to the exchange. The order adds to a backlog that had shrunk over the past year as customers postponed projects. The company left its forecast for "
            "the year as it was. Its shares had risen by a tenth since the beginning of the month, when first reports of the tender appeared.",
            [("Orrin Electric", "switchgear for the northern grid", "$212 million", "four"), ("Baltasar Marine", "two buoy tenders to the coast guard", "$96 million", "three"),
             ("Kestrel Optics", "sights for survey aircraft", "$18.4 million", "five")],
        ),
    ],
    "zh": [
        (
            "{0}消防站获{1}补助",
            "县应急管理局今天宣布，{0}志愿消防站将获得{1}补助，用于{2}。这笔资金来自全省乡镇消防专项，今年共安排四千万元，覆盖各县的基层站点。"
            "应急管理局负责人说，志愿消防员不分昼夜随时出动，理应有可靠的装备。{0}消防站现有队员{3}人，今年春天提交了申请。专项资金承担购置费用的九成，其余由镇里自筹。"
            "下一批申请可于明年三月底前送交县应急管理局办公室，逾期不再受理。",
            [("松岭镇", "38万元", "购买空气呼吸器", "31"), ("白石坳", "117万元", "购置水罐车", "44"), ("青萝镇", "9万元", "添置热成像仪", "22"), ("上河口", "64万元", "更换防护服", "27")],
        ),
        (
            "{0}老旧小区改造{1}开工",
            "记者从区住建局获悉，{0}老旧小区改造工程将于{1}开工，涉及居民楼{2}栋、住户{3}户。改造内容包括更换给排水管道、加装外墙保温层、修整路面和增设停车位，"
            "有条件的单元还将加装电梯。施工期间实行分段作业，尽量减少对居民出行的影响；需要入户施工的，工作人员会提前三天上门告知。改造费用由财政承担，居民不需要交钱。"
            "工程计划在年底前完工，居民可以到社区居委会查看图纸并提出意见。",
            [("榆荫里", "五月", "14", "620"), ("望江坊", "六月", "23", "1105"), ("铁桥新村", "八月", "9", "384"), ("丁香苑", "九月", "31", "1460")],
        ),
        (
            "{0}获{1}融资",
            "{0}今天宣布完成{1}融资，由{2}领投，老股东跟投。公司表示，所募资金将主要用于{3}，并扩充研发和销售团队。公司成立于六年前，目前有员工三百余人，客户分布在十几个省份。"
            "创始人在致员工的信中说，过去一年行业起伏很大，能够拿到这笔钱说明方向没有错，但离盈利还有一段路要走，希望大家继续精打细算。"
            "此前有消息称公司正在筹备上市，对此公司回应说目前没有明确的时间表。",
            [("蓝屿科技", "1.3亿元", "云帆资本", "建设第二条产线"), ("禾木生物", "4600万元", "澜海基金", "开展临床试验"), ("图南机器人", "2.8亿元", "青山创投", "开拓海外市场")],
        ),
        (
            "{0}因{1}被罚{2}",
            "市市场监管局近日对{0}作出行政处罚，因其{1}，罚款{2}。决定书显示，执法人员去年两次上门检查并责令改正，当事人承诺在夏季前整改完毕；秋季复查时，问题依然存在。"
            "市场监管局认为，当事人以他人利益为代价节省成本，应从重处罚；考虑到没有造成人身损害，且事后能够配合调查，酌情予以减轻。"
            "当事人可以在六十日内申请行政复议。公司有关负责人表示将先研究决定书的内容，目前已指定专人负责整改。",
            [("德望塑料厂", "向河道排放废水", "12万元"), ("麦香连锁面包店", "仓库卫生不达标", "4.5万元"), ("远途货运公司", "使用制动失灵的车辆", "8.8万元")],
        ),
        (
            "{0}：{1}起停水",
            "因供水管道检修，{0}一带将于{1}八时至二十时停水，涉及居民约{2}户。请提前储水，关好龙头；恢复供水后如水质发黄，请先放水几分钟再使用。不便之处敬请谅解。",
            [("柳叶巷", "3月4日", "130"), ("三元桥", "3月18日", "420"), ("槐树胡同", "4月2日", "75")],
        ),
        (
            "{0}任{1}",
            "市委组织部今天发布任前公示，{0}拟任{1}。公示显示，{0}，{2}年生，大学学历，现任{3}。公示期为五个工作日，公示期间，干部群众可以通过来信、来电、来访等形式，"
            "向市委组织部反映公示对象存在的问题。反映问题应实事求是，以个人名义反映的提倡签署真实姓名。公示期满后，按照有关规定办理任职手续。"
            "受理部门设在市委组织部干部监督科，工作日上午八点半至下午五点半均可来访。",
            [("荀望舟", "市水务局局长", "1974", "云汀县副县长"), ("闻人俪", "市文化馆馆长", "1981", "市图书馆副馆长"), ("钟离柏", "澜州港务局副局长", "1978", "港务局调度处处长")],
        ),
        (
            "{0}与{1}签约",
            "{0}与{1}今天在青梧签署合作协议，双方将在未来{2}年内共同投入{3}，建设联合实验室并互派研究人员。根据协议，联合实验室设在{0}，首批项目将于下半年启动，成果由双方共享。"
            "签约仪式上，双方负责人都表示，合作有很好的基础，希望尽快拿出看得见的成果。去年双方已在人才培养方面开展过合作，先后有四十多名学生参加了联合培养项目。",
            [("青梧理工学院", "澜州船舶集团", "三", "6000万元"), ("临汐大学", "北屿风电公司", "五", "1.1亿元"), ("雪脊天文台", "望洲光学公司", "四", "3500万元")],
        ),
    ],
}

# Notices of two years.
ANNUAL = {
    "en": [
        ("{0}th harvest fair opens in Pellbrook", "The {0}th harvest fair opens on the green of Pellbrook on {1} at noon. As every year there are the cattle show, the ploughing match and the market of the "
         "county's growers; the brass band plays in the afternoon, and at eight there is dancing in the great tent. Admission is free for children. The organisers expect some {2} visitors.",
         [("97", "13 September", "9,000"), ("98", "12 September", "9,500")]),
        ("Calder Bay remembers the flood {0} years ago", "With a silence of one minute Calder Bay has remembered the flood of {0} years ago, in which {1} people lost their lives. The mayor laid a wreath at the stone by the old "
         "sluice; the bells rang at the hour at which the dyke broke. Schools had come with drawings that now hang in the library. In the evening there was a service in the seamen's church.",
         [("sixty-nine", "41"), ("seventy", "41")]),
        ("Council of Owlerton: {0} session", "The council of Owlerton holds its {0} session of this term on {1} at seven in the evening in the small hall. On the agenda are the minutes of the last session, questions of residents, the report of the "
         "treasurer, and motions as received. The session is public; documents can be seen at the town hall three days before. Those who wish to speak give their names at the door.",
         [("second", "4 February"), ("third", "4 March"), ("fourth", "1 April")]),
    ],
    "zh": [
        ("青梧纪念建港{0}周年", "青梧港今天举行纪念建港{0}周年活动，港务局负责人和职工代表两百余人参加。活动回顾了建港以来的历程，表彰了一批先进班组和个人，老职工代表讲述了当年扩建码头的经历。"
         "下午，新修缮的港史馆重新开放，市民可以免费参观。据介绍，去年青梧港货物吞吐量为{1}万吨。", [("九十八", "3120"), ("九十九", "3276")]),
        ("市人大常委会第{0}次会议召开", "市人大常委会第{0}次会议今天在市政中心召开，会议听取和审议了市政府关于预算执行情况的报告，审议了有关条例草案，并通过了人事任免事项。常委会组成人员{1}人出席会议，"
         "市政府有关负责人、部分市人大代表列席会议。会议由常委会主任主持。", [("二", "41"), ("三", "43"), ("四", "40")]),
        ("第{0}届云汀荷花节开幕", "第{0}届云汀荷花节今天在湿地公园开幕，将持续一个月。节日期间将举行摄影展、龙舟赛、夜游荷塘等活动，市民凭身份证可以免费入园。组委会提醒游客乘坐公交前往，公园周边停车位有限。"
         "去年的荷花节共接待游客{1}万人次。", [("十一", "36"), ("十二", "41.5")]),
    ],
}

DISCLAIMERS = {
    "en": ("This page passes on what third parties have sent us. It is no advice and no offer, and we do not vouch for it being complete or right. Whoever acts on it does so at their own risk. All rights "
           "remain with those who hold them; please write to us if you think that yours were infringed.",
           [("Swimming bath closed", "The swimming bath is closed on Friday because of a burst pipe."), ("Lost dog found", "The brown terrier from Mill Road is back with its owners."),
            ("Choir seeks basses", "The town choir is looking for two basses for its spring concert."), ("Library sells books", "The library sells books it no longer needs on Saturday."),
            ("Bus stop moved", "The stop at the station is now in front of the bakery."), ("Market a day earlier", "Because of the holiday the market is held on Wednesday.")]),
    "zh": ("本页内容由第三方提供，仅供参考，不构成任何建议或要约，本网不对其完整性和真实性作任何保证，据此操作风险自担。相关权利归原权利人所有，如认为侵犯了您的权益，请来信告知，我们将在核实后及时处理并予以答复。",
           [("游泳馆停业", "因水管破裂，市游泳馆周五停业一天，退票请到前台办理。"), ("走失小狗找到", "磨坊路走失的棕色小狗昨晚已回到主人身边。"), ("合唱团招人", "市民合唱团为春季音乐会招募两名男低音。"),
            ("图书馆义卖", "图书馆周六出售一批下架旧书，收入捐给山区小学。"), ("站台迁移", "火车站公交站台已移到面包店门前，请乘客留意。"), ("集市提前", "因逢假日，本周集市提前到星期三举行。")]),
}

# One text in two notations: each place is `[[one|other]]`.
NOTATION = {
    "en": [
        ("County gets [[$1,224,254|1 224 254]] for bridges", "The county[[']]s bridges are to be repaired with [[$1,224,254|1 224 254]] from the national fund, the ministry said on [[May 23, 2007|05 23 2007]]. The largest part, [[$640,500|640 500]], goes to the crossing at Stony "
         "Marsh, which was closed to lorries after the inspectors[[']] report. Another [[$212,000|212 000]] is for the footbridge at the weir. \"Nobody should have to drive [[26.5|26 5]] miles around a river,\" said the county[[']]s surveyor. The work begins in summer."),
        ("Turnover of the harbour rises to [[$1.3 billion|1,300,000,000]]", "The harbour company[[']]s turnover rose to [[$1.3 billion|1,300,000,000]] last year, by [[4.5|4 5]] percent. It handled [[38,200,000|38.2 million]] tonnes, which is [[two|2]] percent more than in the year before. The company"
         "[[']]s board proposes a dividend of [[85|85]] cents. For the current year it expects less: the wage agreement alone costs [[$12.4 million|12,400,000]], and the dredging of the channel another [[$7,150,000|7 150 000]]. The general meeting is on [[8 June|June 8]]."),
        ("Census: Winnow grows", "Winnow[[']]s population has grown to [[48,310|48 310]], the statistical office[[']]s figures show. That is [[1,204|1 204]] more than at the last census [[ten|10]] years ago. Most came from the city because of the rents: a flat of [[seventy|70]] square metres costs [[$1,150|1 150]] a month there and "
         "[[$780|780]] in Winnow. The town[[']]s schools have [[2,960|2 960]] pupils, and the fourth primary school opens in autumn. The mayor spoke of growing pains that other towns would like to have."),
        ("Dam is full for the first time in [[nine|9]] years", "After the rain of the past weeks the dam above Low Fenwick is full for the first time in [[nine|9]] years. [[17.25|17 25]] million cubic metres stand behind its wall, the water board[[']]s engineers reported on [[12 March 2011|March 12, 2011]]. In the summer of the drought it had been [[3.1|3 1]] "
         "million. The overflow was opened at noon, and some [[1,500|1 500]] people had come to see it. Downstream the river[[']]s level rises by [[40|40]] centimetres at most."),
        ("Bakers pay [[11,500|11 500]] apprentices more", "The bakers[[']] guild and the union have agreed on more pay for apprentices. In the [[first|1st]] year they get [[$860|860]] a month, in the [[second|2nd]] [[$945|945]] and in the [[third|3rd]] [[$1,090|1 090]]. About [[11,500|11 500]] young people learn the trade, a fifth fewer than [[five|5]] years ago. The guild[[']]s head said that whoever "
         "gets up at [[three|3]] in the morning has to be paid for it. The agreement runs until [[31 December|December 31]]."),
        ("Ferry to get new engines for [[$4.75 million|4,750,000]]", "The ferry between Calder Bay and Sandhythe gets new engines. The shipping company[[']]s owners approved [[$4.75 million|4,750,000]] for it on [[2 October 2009|October 2, 2009]]. The old ones are [[31|31]] years old and burn [[1,900|1 900]] litres a day; the new ones will need [[1,240|1 240]]. The yard[[']]s"
         " fitters need [[six|6]] weeks, in which a ship of the coast guard takes passengers but no cars. In a normal year the ferry carries [[410,000|410 000]] people."),
    ],
    "zh": [
        ("全县桥梁获拨[[1224254|1,224,254]]元", "记者从县交通局获悉，全县桥梁维修获得拨款[[1224254|1,224,254]]元，其中石沼渡口大桥[[640500|640,500]]元，因检测不合格，这座桥去年起禁止货车通行。另有[[21.2万|212000]]元用于堰口人行桥。交通局工程师说，"
         "不能再让群众绕行[[二十六|26]]公里过河。工程将于[[六|6]]月动工，[[十一|11]]月底前完成，届时公交[[三|3]]路将恢复原线路。"),
        ("澜州港去年收入[[1.3亿|13000万]]元", "澜州港务公司公布，去年收入[[1.3亿|13000万]]元，增长百分之[[四|4]]；货物吞吐量[[3820万|38,200,000]]吨，增长百分之[[二|2]]。董事会建议每股派息[[八|8]]分。公司预计今年形势趋紧，仅工资调整就要多支出[[1240万|12,400,000]]元，"
         "航道疏浚还要[[715万|7,150,000]]元。股东大会定于[[六月八日|6月8日]]举行。"),
        ("云汀镇人口增至[[四万八千三百一十|48310]]人", "统计部门公布，云汀镇常住人口增至[[四万八千三百一十|48310]]人，比[[十|10]]年前增加[[1204|1,204]]人。新增人口大多因为房租从市区迁来：[[七十|70]]平方米的房子在市区月租[[一千一百五十|1150]]元，在云汀只要[[七百八十|780]]元。全镇学校共有学生[[2960|2,960]]人，"
         "第[[四|4]]所小学将在秋季开学。镇长说，这是发展中的烦恼。"),
        ("青萝水库[[九|9]]年来首次蓄满", "经过连续降雨，青萝水库[[九|9]]年来首次蓄满，蓄水量达到[[1725万|17,250,000]]立方米。水务局[[2011年3月12日|二〇一一年三月十二日]]通报，大旱那年夏天只有[[310万|3,100,000]]立方米。中午开闸泄洪时，有[[1500|1,500]]多名群众前来观看。"
         "下游水位最多上涨[[四十|40]]厘米，沿岸[[三|3]]个村已做好准备。"),
        ("面包业学徒工资上调", "面包行业协会与工会达成协议，学徒工资上调：第[[一|1]]年每月[[860|八百六十]]元，第[[二|2]]年[[945|九百四十五]]元，第[[三|3]]年[[1090|1,090]]元。全行业有学徒[[11500|1.15万]]人，比[[五|5]]年前少了两成。协会会长说，凌晨[[三|3]]点起床的人理应拿到相应的报酬。"
         "协议有效期到[[十二月三十一日|12月31日]]。"),
        ("渡轮更换发动机投入[[475万|4,750,000]]元", "来往望洲与沙湾的渡轮将更换发动机。航运公司[[十月二日|10月2日]]批准投入[[475万|4,750,000]]元。旧发动机已用了[[三十一|31]]年，每天耗油[[1900|1,900]]升，新发动机只要[[1240|1,240]]升。更换需要[[六|6]]个星期，期间由海事部门派船载客，不载汽车。"
         "正常年份渡轮运送旅客[[41万|410,000]]人次。"),
    ],
}

PAGES = {
    "en": ("Press Room\nNews Releases\nTelephone 202 555 0143\n", "Contact: press office, 555-0199\nFor immediate release\n"),
    "zh": ("首页 新闻 正文\n来源电话：0571-5550143\n", "发稿编辑：荀小舟\n联系电话：5550199\n"),
}


def read(text, which):
    """The text in one of its two notations."""
    parts = text.split("[[")
    out = parts[0]
    for part in parts[1:]:
        place, rest = part.split("]]", 1)
        if place == "'":
            out += "'" if which == 0 else ""
        else:
            out += place.split("|")[which]
        out += rest
    return out


def make():
    documents, pairs = [], []

    def add(title, content, lang):
        documents.append({"id": f"f{len(documents) + 1:04}", "title": title, "content": content, "lang": lang})
        return documents[-1]["id"]

    def compare(one, other, label, kind, lang):
        pairs.append((one, other, label, kind, lang))

    for lang in ("en", "zh"):
        for kind, texts in (("form", FORMS[lang]), ("annual", ANNUAL[lang])):
            for title, body, fillings in texts:
                ids = [add(title.format(*f), body.format(*f), lang) for f in fillings]
                for one, other in itertools.combinations(ids, 2):
                    if kind == "annual" or int(other[1:]) - int(one[1:]) == 1 or one == ids[0]:
                        compare(one, other, "different", kind, lang)
        disclaimer, notices = DISCLAIMERS[lang]
        ids = [add(title, notice + "\n" + disclaimer, lang) for title, notice in notices]
        for one, other in zip(ids, ids[1:]):
            compare(one, other, "different", "disclaimer", lang)
        for title, body in NOTATION[lang]:
            head, foot = PAGES[lang]
            one = add(read(title, 0), head + read(body, 0), lang)
            other = add(read(title, 1), read(body, 1) + "\n" + foot, lang)
            compare(one, other, "same", "notation", lang)
        for title, body, fillings in FORMS[lang]:
            text = body.format(*fillings[0])
            stop = "。" if lang == "zh" else ". "
            sentences = text.split(stop)
            more = "这是本报记者今天从现场了解到的情况" if lang == "zh" else "This was reported by our own correspondent in the county"
            less = sentences[:-2] + [more] + sentences[-1:]
            new = "本地要闻" if lang == "zh" else "From the county"
            other = add(new, stop.join(less), lang)
            first = next(d["id"] for d in documents if d["content"] == text)
            compare(first, other, "same", "rewritten", lang)
    ndjson = "".join(json.dumps(d, ensure_ascii=False) + "\n" for d in documents)
    tsv = "a_id\tb_id\tlabel\tkind\tlang\n" + "".join("\t".join(p) + "\n" for p in pairs)
    return {"forms.ndjson": ndjson, "forms.tsv": tsv}


def main():
    files = make()
    if "--check" in sys.argv[1:]:
        wrong = [name for name, text in files.items() if (HERE / name).read_text(encoding="utf8") != text]
        sys.exit(f"not what forms.py would write: {', '.join(wrong)}" if wrong else 0)
    for name, text in files.items():
        (HERE / name).write_text(text, encoding="utf8")


if __name__ == "__main__":
    main()
